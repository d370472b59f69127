/** Several nodes over a store in memory: with hints, and with every hint lost. */
import { memoryStreamStore } from "../../src/store/index.ts";
import { lettersConformance } from "../conformance/letters.ts";
import { ManualClock } from "../store/manual-clock.ts";
import { MemoryLetters } from "../store/memory-letters.ts";
import { nodesSuite, type SharedWorld } from "./suite.ts";

async function world(hasHints: boolean): Promise<SharedWorld> {
  const clock = new ManualClock();
  const letters = new MemoryLetters();
  const store = letters.around(await memoryStreamStore({ now: clock.now }));
  const deaf = {
    post: letters.post.bind(letters),
    read: letters.read.bind(letters),
    discard: letters.discard.bind(letters),
    listen: () => () => undefined,
  };
  return {
    handle: async () => ({ store, letters: hasHints ? letters : deaf }),
    advance: (ms) => clock.advance(ms),
  };
}

lettersConformance("letters in memory", async () => {
  const letters = new MemoryLetters();
  const store = letters.around(await memoryStreamStore({ now: () => 0 }));
  return { store, letters, peer: letters };
});
nodesSuite("nodes with hints", () => world(true));
nodesSuite("nodes that only poll", () => world(false));
