/**
 * What a turn was offered to have carried out, and what that leaves for those that it asks for: a subagent never has more than
 * the turn that asked for it.
 */
import type { ExecRequest } from "../../protocol/exec-codec.ts";
import { ExecKind } from "../../protocol/messages.ts";
import type { OfferedNames } from "./conversation-store.ts";
import type { OfferedTools } from "./run-request.ts";

/** What reads and does nothing else. */
const READ_ONLY: ReadonlySet<ExecKind> = new Set([ExecKind.READ, ExecKind.LS, ExecKind.GLOB, ExecKind.GREP]);

export function offeredNames({ kinds, definitions }: OfferedTools): OfferedNames {
  return { kinds: [...kinds], tools: definitions.map(({ name }) => name) };
}

/** `limit` is what the turn above was offered; undefined when that was everything. */
export function withinOffer(tools: OfferedTools, limit: OfferedNames | undefined): OfferedTools {
  if (limit === undefined) return tools;
  return {
    kinds: tools.kinds.filter((kind) => limit.kinds.includes(kind)),
    definitions: tools.definitions.filter(({ name }) => limit.tools.includes(name)),
  };
}

export function readOnlyTools({ kinds }: OfferedTools): OfferedTools {
  return { kinds: kinds.filter((kind) => READ_ONLY.has(kind)), definitions: [] };
}

const KINDS: Readonly<Record<ExecRequest["kind"], ExecKind>> = {
  unrecognized: ExecKind.UNSPECIFIED,
  shell: ExecKind.SHELL,
  shell_stream: ExecKind.SHELL_STREAM,
  read: ExecKind.READ,
  write: ExecKind.WRITE,
  delete: ExecKind.DELETE,
  ls: ExecKind.LS,
  glob: ExecKind.GLOB,
  grep: ExecKind.GREP,
  mcp: ExecKind.MCP,
  subagent: ExecKind.SUBAGENT,
};

/** The reason when it was not. */
export function notOffered(
  { kind, tool }: ExecRequest,
  offered: OfferedNames | undefined,
): string | undefined {
  if (offered === undefined) return undefined;
  const isOffered = offered.kinds.includes(KINDS[kind]) && (kind !== "mcp" || offered.tools.includes(tool));
  return isOffered ? undefined : `"${tool}" was not offered to this turn`;
}
