"""Light and dark: how readable a text is, and the colours that JupyterLab's dark theme sets."""

# Contrast between a text and what is behind it, as WCAG 2.1 defines it.
CONTRAST = """(element) => {
  const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = element;
  while (behind && (rgba(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0)
    behind = behind.parentElement;
  const back = behind ? rgba(getComputedStyle(behind).backgroundColor) : [255, 255, 255];
  const [dark, bright] = [light(rgba(getComputedStyle(element).color)), light(back)].sort();
  return (bright + 0.05) / (dark + 0.05);
}"""

# The variables of JupyterLab's dark theme that the views use.
DARK = """
body { background: #111; }
:root {
  --jp-content-font-color1: rgba(255, 255, 255, 1);
  --jp-content-font-color2: rgba(255, 255, 255, .7);
  --jp-layout-color1: #111; --jp-layout-color2: #424242;
  --jp-border-color2: #616161; --jp-brand-color1: #2196f3;
  --jp-success-color1: #388e3c; --jp-error-color1: #d32f2f; --jp-warn-color1: #f57c00;
  --jp-mirror-editor-keyword-color: #4caf50; --jp-mirror-editor-number-color: #66bb6a;
  --jp-mirror-editor-variable-3-color: #4db6ac; --jp-mirror-editor-property-color: #64b5f6;
  --jp-mirror-editor-def-color: #42a5f5; --jp-mirror-editor-string-color: #ff7070;
}"""
