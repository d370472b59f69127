/**
 * Execs that are not the OpenAI client's: an agent that edits a file reads it first, and such a read is no tool call of the client.
 *
 * With a workspace the gateway reads for itself; without one it says that it cannot, so that no turn waits for ever. Only what has no
 * effects is carried out here, so it needs no journal: asked again after a restart it is read again.
 */
import type { ClientStream } from "../client/index.ts";
import { type ExecRequest, readExec, writeExecError, writeExecThrow } from "../protocol/exec-codec.ts";
import type { ExecKind } from "../protocol/messages.ts";

export interface Workspace {
  /** What it can do; offered to the agent. */
  readonly kinds: readonly ExecKind[];
  /** Resolves with the encoded result. */
  carryOut(exec: ExecRequest, stream: Pick<ClientStream, "putBlob" | "getBlob">): Promise<Uint8Array>;
}

/** The encoded answer to an event that asks for an exec of our own; undefined when it asks for none. */
export async function answerOwnExec(
  event: Uint8Array,
  stream: ClientStream,
  workspace: Workspace | undefined,
): Promise<Uint8Array | undefined> {
  const exec = readExec(event);
  if (exec === undefined || exec.kind === "mcp") return undefined;
  if (workspace === undefined || exec.kind === "unrecognized") {
    return writeExecThrow(exec, "unknown_kind", "this gateway has no workspace to do that in");
  }
  try {
    return await workspace.carryOut(exec, stream);
  } catch (cause) {
    return writeExecError(exec, cause instanceof Error ? cause.message : String(cause));
  }
}
