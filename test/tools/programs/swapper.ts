/**
 * Swaps a directory and a file of a workspace for symlinks to outside and back, as fast as it can, until its input ends.
 * Says "swapped" after each hundred rounds.
 *
 *     node swapper.ts <workspace> <outside>
 */
import { renameSync, rmSync, symlinkSync } from "node:fs";

const [, , root = "", outside = ""] = process.argv;

function move(from: string, to: string): void {
  for (;;) {
    try {
      renameSync(`${root}/${from}`, `${root}/${to}`);
      return;
    } catch {
      // A write made the directory while it was away, and may be in it still; or a delete was first.
      rmSync(`${root}/${to}`, { recursive: true, force: true, maxRetries: 100 });
    }
  }
}

symlinkSync(outside, `${root}/link`);
symlinkSync(`${outside}/f.txt`, `${root}/leaf-link`);
let isOver = false;
process.stdin.on("end", () => (isOver = true)).resume();

let rounds = 0;
function swap(): void {
  for (let n = 0; n < 100; n++) {
    move("swap", "parked");
    move("link", "swap");
    move("leaf.txt", "leaf-parked");
    move("leaf-link", "leaf.txt");
    move("swap", "link");
    move("parked", "swap");
    move("leaf.txt", "leaf-link");
    move("leaf-parked", "leaf.txt");
  }
  rounds += 100;
  process.stdout.write("swapped\n");
  if (!isOver) setImmediate(swap);
}
swap();
