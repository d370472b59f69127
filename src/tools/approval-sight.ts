/**
 * What a person who is asked to approve must see besides the arguments: content that came as a blob's id, and the file that a write would replace.
 *
 * A content that cannot be fetched cannot be approved: then there is an error, and an error is a no.
 */
import { hash } from "node:crypto";
import type { ToolRun } from "../client/tools.ts";
import type { Content, ExecServerMessage } from "../protocol/messages.ts";
import { codeOf, failureOf } from "./faults.ts";
import { readHeldFile } from "./held.ts";
import type { Jail } from "./jail.ts";
import { READ_BYTES_MAX } from "./read.ts";
import { bytesOf } from "./results.ts";

export interface Sight {
  /** Of a write, a declared tool's arguments or a subagent's task; else empty. */
  readonly content: SeenText;
  readonly present: PresentFile;
}

interface SeenText {
  /** Words about it when it is none. */
  readonly text: string;
  readonly isText: boolean;
}

/** The file that a write would replace. */
type PresentFile =
  | { readonly kind: "none" }
  | { readonly kind: "text"; readonly text: string; readonly isExpected: boolean }
  | { readonly kind: "unseen"; readonly why: string };

const NOTHING: SeenText = { text: "", isText: true };

export async function lookAt(
  { message }: ExecServerMessage,
  jail: Jail | undefined,
  blobs: Pick<ToolRun, "download">,
): Promise<Sight> {
  switch (message.case) {
    case "writeArgs": {
      const { path, content, expectedSha256 } = message.value;
      const present = jail === undefined ? NONE : presentFile(jail, path, expectedSha256);
      return { content: await seenText(content, blobs), present };
    }
    case "mcpArgs":
      return { content: await seenText(message.value.argsJson, blobs), present: NONE };
    case "subagentArgs":
      return { content: await seenText(message.value.prompt, blobs), present: NONE };
    default:
      return { content: NOTHING, present: NONE };
  }
}

const NONE: PresentFile = { kind: "none" };

async function seenText(content: Content | undefined, blobs: Pick<ToolRun, "download">): Promise<SeenText> {
  if (content?.content.case === undefined) return NOTHING;
  const bytes = await bytesOf(content, blobs);
  const text = textOf(bytes);
  if (text !== undefined) return { text, isText: true };
  return { text: `${bytes.length} bytes that are no text; SHA-256 ${hash("sha256", bytes)}`, isText: false };
}

/** Undefined when the bytes are no UTF-8. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function presentFile(jail: Jail, path: string, expected: Uint8Array | undefined): PresentFile {
  try {
    using place = jail.locate(path);
    if (place.held === undefined) return NONE;
    if (place.held.stats.size > READ_BYTES_MAX) {
      return { kind: "unseen", why: `a file of ${place.held.stats.size} bytes, too many to compare` };
    }
    return presentText(readHeldFile(place.held, path), expected);
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return NONE;
    const { value } = failureOf(cause, path);
    return { kind: "unseen", why: "message" in value ? value.message : "it cannot be looked at" };
  }
}

function presentText(bytes: Buffer, expected: Uint8Array | undefined): PresentFile {
  const text = textOf(bytes);
  if (text === undefined) return { kind: "unseen", why: `a file of ${bytes.length} bytes that are no text` };
  const isExpected = expected === undefined || hash("sha256", bytes, "buffer").equals(expected);
  return { kind: "text", text, isExpected };
}
