/**
 * What letters between nodes must do, wherever they lie.
 */
import assert from "node:assert/strict";
import { suite, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Hint, Letters, StreamStore } from "../../src/store/index.ts";
import { created, growth, streamName } from "./stream-fixtures.ts";

export interface LettersHarness {
  readonly store: StreamStore;
  readonly letters: Letters;
  /** Another node's handle. */
  readonly peer: Letters;
}

export function lettersConformance(of: string, open: (t: TestContext) => Promise<LettersHarness>): void {
  const name = streamName("s");
  const letter = (text: string, to = "a", hostEpoch = 1) => ({
    to,
    name,
    hostEpoch,
    sealed: new TextEncoder().encode(text),
  });
  const texts = async (letters: Letters, to = "a"): Promise<readonly string[]> =>
    (await letters.read(to, 100)).map(({ sealed }) => new TextDecoder().decode(sealed));

  suite(of, () => {
    test("letters are read by the node that they are for, in the order of their posting, as often as it asks", async (t) => {
      const { letters, peer } = await open(t);
      await Promise.all([
        peer.post(letter("one")),
        peer.post(letter("two", "b")),
        peer.post(letter("three")),
      ]);
      assert.deepEqual(await texts(letters), ["one", "three"]);
      assert.deepEqual(await texts(letters), ["one", "three"]);
      assert.deepEqual(await texts(letters, "b"), ["two"]);
      const [first] = await letters.read("a", 1);
      assert.ok(first !== undefined);
      assert.deepEqual([first.name, first.hostEpoch, (await letters.read("a", 1)).length], [name, 1, 1]);
      await letters.discard([first.number]);
      await letters.discard([first.number]);
      await letters.discard([]);
      assert.deepEqual(await texts(letters), ["three"]);
    });

    test("a commit takes the letters away that it deals with; one that is refused leaves them", async (t) => {
      const { store, letters, peer } = await open(t);
      const state = await created(store, name);
      for (const text of ["one", "two", "three"]) await peer.post(letter(text));
      const [one, two] = (await letters.read("a", 2)).map(({ number }) => number);
      assert.ok(one !== undefined && two !== undefined);
      const commit = { ...growth(name, state, { chunks: 1 }), letters: [one, two] };
      const late = await store.commit({ ...commit, expected: { ...commit.expected, hostEpoch: 9 } });
      assert.equal(late.kind, "conflict");
      assert.deepEqual(await texts(letters), ["one", "two", "three"]);
      assert.equal((await store.commit(commit)).kind, "committed");
      assert.deepEqual(await texts(letters), ["three"]);
    });

    test("a hint says which streams have changed and for whom there are letters", async (t) => {
      const { store, letters, peer } = await open(t);
      const state = await created(store, name);
      await store.look([name, streamName("other")]);
      const heard = (isMeant: (hint: Hint) => boolean): Promise<Hint> =>
        new Promise((resolve) => {
          const stop = letters.listen((hint) => {
            if (!isMeant(hint)) return;
            stop();
            resolve(hint);
          });
        });
      const posted = heard((hint) => hint.isFor("a") && !hint.isFor("b"));
      // A hint is lost while either side connects: the letter is posted until one is heard.
      const said = posted.then(() => true);
      do await peer.post(letter("one"));
      while (!(await Promise.race([said, sleep(20, false)])));
      const changed = heard((hint) => hint.has(name) && !hint.isFor("a"));
      assert.equal((await store.commit(growth(name, state, { events: 1 }))).kind, "committed");
      await changed;
      const released = heard((hint) => hint.has(name) && !hint.isFor("a"));
      await store.release(name, state.hostEpoch);
      await released;
    });
  });
}
