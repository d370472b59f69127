/**
 * Letters as the host of a stream hears them: what they say, and which of them wait for the commit that deals with them.
 *
 * Invariant: a letter is removed with the commit behind which it says nothing new, or when it said nothing new at once.
 */
import type { Said } from "../core/hosted-stream.ts";
import type { ClientFrame } from "../protocol/frames.ts";
import type { SyncSealing } from "../sealing/index.ts";
import type { Letters } from "../store/letters.ts";
import type { FrameByLetter } from "./stream-logs.ts";

/** Of the chunks of one stream. */
export type Mac = ReturnType<SyncSealing["contentMac"]>;

const NO_BODY = new Uint8Array();

/** A chunk or a close, with the MAC by which it is compared (A2). */
export function spoken(frame: Extract<ClientFrame, { kind: "chunk" | "close" }>, contentMac: Mac) {
  const { kind, seqno, writerEpoch } = frame;
  const body = kind === "chunk" ? frame.body : NO_BODY;
  const mac = contentMac(seqno, kind, body);
  return { body, said: { seqno, writerEpoch, mac, bytes: body.length, isClose: kind === "close" } };
}

/** What a letter tells the host; undefined when it tells nothing. */
export function saidBy({ frame, writerEpoch }: FrameByLetter, contentMac: Mac): SaidByLetter {
  switch (frame.kind) {
    case "attach":
      return { said: { kind: "attach", frame, writerEpoch } };
    case "chunk":
    case "close": {
      const { body, said } = spoken(frame, contentMac);
      return { said: { ...said, kind: "chunk" }, chunk: { body, mac: said.mac } };
    }
    case "abort":
      return { said: { kind: "abort" } };
    case "heartbeat":
      return { said: undefined };
  }
}

interface SaidByLetter {
  readonly said: Said | undefined;
  readonly chunk?: { readonly body: Uint8Array; readonly mac: Uint8Array };
}

export class HeardLetters {
  readonly #letters: Letters | undefined;
  #numbers: number[] = [];

  constructor(letters: Letters | undefined) {
    this.#letters = letters;
  }

  add(number: number): void {
    this.#numbers.push(number);
  }

  /** For the commit that is about to be made: it deals with all that were heard. */
  committing(): { readonly letters?: readonly number[] } {
    return this.#numbers.length === 0 ? {} : { letters: this.#numbers.splice(0) };
  }

  /** No commit is under way or waits: whatever was heard said nothing new. What stays is found again, and says nothing new then either. */
  discard(): void {
    if (this.#numbers.length > 0) this.#letters?.discard(this.#numbers.splice(0)).catch(() => undefined);
  }
}
