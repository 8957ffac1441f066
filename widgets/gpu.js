// What the views of GPU kernels share: the colours and the names of threads.

const WARP = 32;

// Neighbours have near colours, so that an order shows as a gradient.
const hue = (share) => {
  const part = (n) => {
    const k = (n + share * 9.6 + 7) % 12;
    return Math.round(255 * (0.56 - 0.36 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
};

// A number as a place on the axes x, y and z, as few of them as are used.
const placeText = (number, [x, y, z]) => {
  if (y === 1 && z === 1) return `${number}`;
  const place = [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
  return `(${place.slice(0, z > 1 ? 3 : 2).join(", ")})`;
};

// "0, 1, 2 … 31 (32 threads)"
const severalText = (names) => names.length <= 4 ? names.join(", ")
  : `${names.slice(0, 3).join(", ")} … ${names.at(-1)} (${names.length} threads)`;

const rangeOf = (label, last, attributes) => control("input", {
  type: "range", class: "mlc-slider", min: 0, max: last, step: 1, "aria-label": label,
  ...attributes,
});
