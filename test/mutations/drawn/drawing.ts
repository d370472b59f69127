/**
 * Draws mutations by lot: equal seeds and equal source give equal mutations.
 */
import { globSync, readFileSync } from "node:fs";
import { Random } from "../../simulation/world/random.ts";
import type { Patch } from "../../simulation/mutants/patch.ts";
import { type Change, changesOf } from "./operators.ts";

const root = new URL("../../../", import.meta.url);

/** The rooms whose decisions have to be noticed by tests. */
export const ROOMS = ["src/turn", "src/gateway", "src/agent"] as const;

export function draw(seed: number, count: number, rooms: readonly string[] = ROOMS): readonly Patch[] {
  const files = rooms.flatMap((room) => globSync(`${room}/**/*.ts`, { cwd: root })).toSorted();
  const places = files.flatMap((file) => {
    const text = readFileSync(new URL(file, root), "utf8");
    return changesOf(text).map((change) => ({ file, text, change }));
  });
  const random = new Random(`mutate/${seed}`);
  const drawn = new Map<string, Patch>();
  while (drawn.size < Math.min(count, places.length)) {
    const { file, text, change } = random.pick(places);
    drawn.set(`${file}:${change.start}`, patchOf(file, text, change));
  }
  return [...drawn.values()];
}

/** A patch names its place by text that is in the file once: as many lines around the change as that takes. */
export function patchOf(file: string, text: string, { start, end, to }: Change): Patch {
  let from = text.lastIndexOf("\n", start - 1) + 1;
  let until = lineEnd(text, end);
  while (text.split(text.slice(from, until)).length !== 2) {
    from = text.lastIndexOf("\n", from - 2) + 1;
    until = lineEnd(text, until + 1);
  }
  return { file, from: text.slice(from, until), to: text.slice(from, start) + to + text.slice(end, until) };
}

function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}
