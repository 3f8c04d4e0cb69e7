"""Write tenxor/data/digits.csv: the UCI optical digits, from the copy inside scikit-learn's package.

Run once, with scikit-learn installed; the file is kept in the repository:

    python tools/export_digits.py

Each line is one image: its 64 pixels row by row, from 0 (paper) to 16 (ink), then the digit that it shows.
"""

from hashlib import sha256
from pathlib import Path

from sklearn.datasets import load_digits

TARGET = Path(__file__).resolve().parents[1] / "tenxor" / "data" / "digits.csv"


def export(target: Path) -> None:
    """Write the data set to `target`; the same bytes every time."""
    pixels, labels = load_digits(return_X_y=True)
    lines = [",".join(str(int(value)) for value in (*image, label)) for image, label in zip(pixels, labels, strict=True)]
    target.write_bytes(("\n".join(lines) + "\n").encode("ascii"))


if __name__ == "__main__":
    export(TARGET)
    content = TARGET.read_bytes()
    print(f"{TARGET}: {len(content):,} bytes, sha256 {sha256(content).hexdigest()}")
