/**
 * A disk that can lose its power: a file system in an image file.
 *
 * A copy of the image is what a disk has at that moment: what the server has synced, and nothing that
 * still waits in the operating system's memory. The file system writes its own journal as late as it may
 * (`commit=300`), so that what was not synced is really missing from the copy.
 */
import { execFileSync } from "node:child_process";
import { constants, copyFileSync, mkdirSync } from "node:fs";

const IMAGE_MIB = 128;

/** Why this machine cannot do it; undefined when it can. */
export function obstacle(): string | undefined {
  if (process.platform !== "linux") return "it needs Linux";
  if (process.getuid?.() !== 0) return "it needs root, to mount an image";
  for (const program of ["mkfs.ext4", "mount", "umount"]) {
    try {
      execFileSync("which", [program]);
    } catch {
      return `it needs ${program}`;
    }
  }
  return undefined;
}

export function makeImage(image: string): void {
  execFileSync("truncate", ["-s", `${String(IMAGE_MIB)}M`, image]);
  execFileSync("mkfs.ext4", ["-q", "-F", image]);
}

export function mountImage(image: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  execFileSync("mount", ["-o", "loop,commit=300", image, folder]);
}

export function unmount(folder: string): void {
  try {
    execFileSync("umount", [folder], { stdio: "ignore" });
  } catch {
    // It was not mounted, or a dead process still has it: the kernel lets go when that is gone.
    execFileSync("sh", ["-c", `umount -l '${folder}' 2>/dev/null || true`]);
  }
}

export function copyImage(image: string, copy: string): void {
  copyFileSync(image, copy, constants.COPYFILE_FICLONE);
}
