/**
 * How an answer of a scripted provider breaks: behind so many of its frames, in one of the ways in which connections and providers do.
 *
 * What comes before the break has arrived at its reader when the connection breaks: a cut that overtook it would break elsewhere each time.
 */
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import type { ServerResponse } from "node:http";
import type { Format, Frame, Place } from "./formats.ts";
import { type Act, begin, frameText } from "./server.ts";

export const CUTS = [
  /** The body ends in good order. */
  "end",
  /** The connection is closed in the middle of the body. */
  "fin",
  "rst",
  /** Nothing more comes. */
  "silence",
  /** Only the provider's sign of life comes, for ever. */
  "pings",
  "comments",
  /** The provider says that it is overloaded. */
  "error",
  /** An event that is none. */
  "malformed",
  /** The next frame is cut in the middle of a character, by a reset. */
  "utf8",
  /** The next frame is left out; the others follow. */
  "gap",
] as const;
export type Cut = (typeof CUTS)[number];

export interface Break {
  /** Behind so many frames, or behind the first one of that place; `first`: before any content. */
  readonly behind: number | Place | "first";
  readonly how: Cut;
}

/** How many frames come before the break. */
export function breakPlace(frames: readonly Frame[], { behind }: Break): number {
  if (typeof behind === "number") return behind;
  if (behind === "first") return frames.findIndex(({ place }) => place !== "head" && place !== "around");
  return frames.findIndex(({ place }) => place === behind) + 1;
}

/** The loop has looked at every socket so often by then that what was written has been read. */
const TURNS = 8;

/** How often a provider that only pings does: often, as the tests' clocks are short. */
const PING_MS = 20;

/** Says the frames; with a break, up to it. */
export function saying(format: Format, frames: readonly Frame[], broken?: Break): Act {
  return async (response, { gone }) => {
    const count = broken === undefined ? frames.length : breakPlace(frames, broken);
    begin(response);
    response.flushHeaders();
    const written = frames.slice(0, count).map(({ data }) => frameText(data));
    if (written.length > 0) response.write(written.join(""));
    const next = frames[count];
    if (broken === undefined) {
      response.end();
      return;
    }
    const rest = frames.slice(count + 1);
    await breakOff(response, { how: broken.how, format, next, rest, gone });
  };
}

interface Breaking {
  readonly how: Cut;
  readonly format: Format;
  readonly next: Frame | undefined;
  readonly rest: readonly Frame[];
  readonly gone: Promise<void>;
}

async function breakOff(
  response: ServerResponse,
  { how, format, next, rest, gone }: Breaking,
): Promise<void> {
  switch (how) {
    case "end":
      response.end();
      return;
    case "silence":
      return;
    case "pings":
    case "comments": {
      const ping = how === "pings" ? format.ping : ": still here\n\n";
      const timer = setInterval(() => response.write(ping), PING_MS);
      await gone;
      clearInterval(timer);
      return;
    }
    case "error":
      response.end(frameText(format.overloaded));
      return;
    case "malformed":
      response.end(frameText('{"half an obj'));
      return;
    case "gap":
      response.end(rest.map(({ data }) => frameText(data)).join(""));
      return;
    case "utf8":
      response.write(halfCharacter(next));
      await read();
      response.socket?.resetAndDestroy();
      return;
    case "fin":
      await read();
      response.socket?.end();
      return;
    case "rst":
      await read();
      response.socket?.resetAndDestroy();
      return;
  }
}

async function read(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await turnOfTheLoop();
}

/** The frame's bytes up to the middle of its first character of several bytes; half of them when it has none. */
function halfCharacter(frame: Frame | undefined): Uint8Array {
  const bytes = new TextEncoder().encode(frameText(frame?.data ?? {}));
  const wide = bytes.findIndex((byte) => byte >= 0xc0);
  return bytes.subarray(0, wide === -1 ? bytes.length / 2 : wide + 1);
}
