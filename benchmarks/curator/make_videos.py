"""Makes short videos with ffmpeg, for video_transcoding: the same for the same numbers of videos and seconds."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=25)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    program = shutil.which("ffmpeg")
    if program is None:
        sys.exit("not found: ffmpeg")
    options.out.mkdir(parents=True, exist_ok=True)
    for number in range(options.videos):
        picture = f"testsrc=size=320x180:rate=24:duration={options.seconds},hue=h={number * 40}"
        words = ["-hide_banner", "-loglevel", "error", "-y", "-f", "lavfi", "-i", picture, "-pix_fmt", "yuv420p"]
        subprocess.run([program, *words, options.out / f"{number}.mp4"], check=True)
    print(f"{options.videos} videos of {options.seconds} s")


if __name__ == "__main__":
    main()
