/**
 * What a process that will be killed has seen and done, line by line in a file.
 *
 * A line is one write to a file opened for appending: what was written before the SIGKILL is there,
 * and nothing has to be flushed. The file stands for the outside world: effects and promises in it
 * have happened, whatever the process remembers.
 */
import { appendFileSync, existsSync, openSync, readFileSync } from "node:fs";

export type Fact =
  /** A new process begins. */
  | { readonly kind: "life"; readonly life: string }
  | { readonly kind: "opened"; readonly key: string; readonly tag: string }
  /** The application reads a stream from after `cursor`, with `digest` of all before. */
  | { readonly kind: "reading"; readonly key: string; readonly cursor: number; readonly digest: number }
  | {
      readonly kind: "event";
      readonly key: string;
      readonly eventId: number;
      readonly body: string;
      readonly end: string | undefined;
    }
  /** About to be said; and: it is on the client's disk. */
  | { readonly kind: "said" | "promised"; readonly tag: string; readonly index: number }
  /** Chunks below `nextSeqno` were acknowledged. */
  | { readonly kind: "acked"; readonly key: string; readonly nextSeqno: number }
  | { readonly kind: "abort_wanted" | "abort_promised"; readonly key: string }
  /** A tool has done what it does. */
  | {
      readonly kind: "effect";
      readonly key: string;
      readonly execId: string;
      readonly repeatable: boolean;
    }
  | { readonly kind: "over"; readonly key: string; readonly outcome: string }
  | { readonly kind: "bug"; readonly what: string };

export class History {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  add(fact: Fact): void {
    appendFileSync(this.#file, `${JSON.stringify(fact)}\n`);
  }
}

export function readHistory(path: string): readonly Fact[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  // What comes after the last line break was cut off in the middle of its write.
  return lines.slice(0, -1).map((line) => parse(line));
}

function parse(line: string): Fact {
  const fact: unknown = JSON.parse(line);
  if (!isFact(fact)) throw new Error(`not a line of a history: ${line}`);
  return fact;
}

/** Our own lines: whatever has a kind is what we wrote. */
function isFact(value: unknown): value is Fact {
  return typeof value === "object" && value !== null && "kind" in value;
}
