/**
 * Joining neighbouring text deltas on replay (B4).
 *
 * A delta is three fields, each inside the other and nothing beside them:
 *
 *   AgentServerMessage.interaction_update 1 { text_delta 1 | thinking_delta 4 { text 1 } }
 *
 * so the place of the text is found by looking at three tags and three lengths, and joining is putting
 * UTF-8 bytes together. A message of any other shape, also one with an unknown field, is not a delta:
 * what we do not understand is never joined.
 */
import { varintSize } from "./hot-frames.ts";
import { LIMITS } from "./limits.ts";

export type DeltaKind = "text" | "thinking";

const INTERACTION_UPDATE = 0x0a;
const TEXT_DELTA = 0x0a;
const THINKING_DELTA = 0x22;
const TEXT = 0x0a;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Looks at the first bytes only; the text itself is not read. */
export function kindOfDelta(message: Uint8Array): DeltaKind | undefined {
  return locate(message)?.kind;
}

/**
 * One message with the texts of all, if all are deltas of one kind; otherwise undefined. Also undefined
 * when the result would be above the limit of an event, which a reader would refuse.
 */
export function joinTextDeltas(messages: readonly Uint8Array[]): Uint8Array | undefined {
  let kind: DeltaKind | undefined;
  let textSize = 0;
  const texts: Uint8Array[] = [];
  for (const message of messages) {
    const delta = locate(message);
    if (delta === undefined || (kind !== undefined && delta.kind !== kind)) {
      return undefined;
    }
    const text = message.subarray(delta.textStart);
    if (!isUtf8(text)) {
      return undefined;
    }
    kind = delta.kind;
    textSize += text.byteLength;
    texts.push(text);
  }
  return kind === undefined ? undefined : build(kind, texts, textSize);
}

function build(kind: DeltaKind, texts: readonly Uint8Array[], textSize: number): Uint8Array | undefined {
  const deltaSize = textSize === 0 ? 0 : 1 + varintSize(textSize) + textSize;
  const updateSize = 1 + varintSize(deltaSize) + deltaSize;
  const messageSize = 1 + varintSize(updateSize) + updateSize;
  if (messageSize > LIMITS.eventBytesMax) {
    return undefined;
  }
  const joined = new Uint8Array(messageSize);
  let at = writeHead(joined, 0, INTERACTION_UPDATE, updateSize);
  at = writeHead(joined, at, kind === "text" ? TEXT_DELTA : THINKING_DELTA, deltaSize);
  if (textSize > 0) {
    at = writeHead(joined, at, TEXT, textSize);
  }
  for (const text of texts) {
    joined.set(text, at);
    at += text.byteLength;
  }
  return joined;
}

function writeHead(into: Uint8Array, start: number, tag: number, byteCount: number): number {
  let at = start;
  into[at++] = tag;
  let rest = byteCount;
  while (rest > 0x7f) {
    into[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  into[at++] = rest;
  return at;
}

function locate(message: Uint8Array): { kind: DeltaKind; textStart: number } | undefined {
  if (message[0] !== INTERACTION_UPDATE) return undefined;
  const update = restAfterLength(message, 1);
  if (update === undefined) return undefined;
  const kind =
    message[update] === TEXT_DELTA ? "text" : message[update] === THINKING_DELTA ? "thinking" : undefined;
  if (kind === undefined) return undefined;
  const delta = restAfterLength(message, update + 1);
  if (delta === undefined) return undefined;
  // An empty text is left out by proto3.
  if (delta === message.byteLength) return { kind, textStart: delta };
  if (message[delta] !== TEXT) return undefined;
  const textStart = restAfterLength(message, delta + 1);
  return textStart === undefined ? undefined : { kind, textStart };
}

/**
 * Reads a length at `at` and returns where its content starts, if that content is exactly the rest of
 * the message: then nothing stands beside the field.
 */
function restAfterLength(message: Uint8Array, at: number): number | undefined {
  let value = 0;
  // Four bytes of seven bits are 256 MiB, far above any event.
  for (let i = 0; i < 4; i++) {
    const byte = message[at + i];
    if (byte === undefined) return undefined;
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      const start = at + i + 1;
      return start + value === message.byteLength ? start : undefined;
    }
  }
  return undefined;
}

/** Half a character at the end of one text would become a whole one, and the joined text another text. */
function isUtf8(bytes: Uint8Array): boolean {
  try {
    utf8.decode(bytes);
    return true;
  } catch {
    return false;
  }
}
