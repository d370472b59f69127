/**
 * Deletes a file, a symlink (never what it points to) or an empty directory, and syncs the directory it was in.
 */
import { rmdirSync, unlinkSync } from "node:fs";
import type { ToolRun } from "../client/tools.ts";
import type { DeleteArgs } from "../protocol/messages.ts";
import { fault, throwIfAborted } from "./faults.ts";
import { entryPath, syncDirectory } from "./held.ts";
import type { Jail } from "./jail.ts";
import type { ResultMessage } from "./results.ts";
import { checkExpected, isOnlyIfNone } from "./write.ts";

export async function deleteFile(args: DeleteArgs, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  if (isOnlyIfNone(args.expectedSha256)) {
    throw fault("EINVAL", "expected_sha256 is empty: what is not there cannot be deleted");
  }
  using place = jail.locate(args.path, { keepLastLink: true });
  const stats = place.held?.stats;
  if (stats === undefined && !place.isLink) throw fault("ENOENT", `there is no ${args.path}`);
  if (place.name === "") throw fault("EACCES", "the workspace itself is not deleted");
  const isDirectory = stats?.isDirectory() === true;
  if (isDirectory && args.expectedSha256 !== undefined) {
    throw fault("EISDIR", `${args.path} is a directory, not the file that was read`);
  }
  if (!isDirectory) await checkExpected(place, args.expectedSha256, args.path);
  throwIfAborted(run.signal);
  const path = entryPath(place.directory, place.name);
  if (isDirectory) rmdirSync(path);
  else unlinkSync(path);
  await syncDirectory(place.directory);
  const value = { sizeBytes: stats?.isFile() === true ? Math.min(stats.size, 0xffff_ffff) : 0 };
  return { case: "deleteResult", value: { result: { case: "success", value } } };
}
