"""What is taken from what a system tells of its caches."""

from minimlc.target import _linux_caches


def test_caches_without_a_size_are_not_taken(tmp_path):
    """Virtual machines may list them so; a usual size is then the better guess."""
    given = [
        ("Data", "1", "0K"),
        ("Instruction", "1", "32K"),
        ("Unified", "2", "1M"),
        ("x", "3", ""),
    ]
    for number, parts in enumerate(given):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("type", "level", "size"), parts, strict=True):
            (folder / name).write_text(f"{text}\n")
    assert _linux_caches(tmp_path.glob("index*")) == {2: 1024 * 1024}
