/** Lists of ids in pages: they read back as what was put in, and growing costs the same at any length. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import * as fc from "fast-check";
import {
  allIds,
  checkIds,
  countOf,
  HoldfastError,
  type IdList,
  IdPageSchema,
  idsIn,
  LIST_IDS_MAX,
  messageIds,
  newestIds,
  NO_IDS,
  PAGE_IDS,
  PageOfIdsSchema,
  turnIds,
  ConversationStateSchema,
  withIds,
  withoutNewest,
} from "../../src/protocol/index.ts";

/** The id of the message at this place. */
function idAt(at: number): Uint8Array {
  const id = new Uint8Array(32);
  new DataView(id.buffer).setUint32(0, at + 1);
  return id;
}

function ids(from: number, count: number): readonly Uint8Array[] {
  return Array.from({ length: count }, (_, at) => idAt(from + at));
}

/** Pages by their blob ids, and how often somebody went to look for some. */
class Shelf {
  readonly pages = new Map<string, Uint8Array>();
  rounds = 0;

  readonly put = (bytes: Uint8Array): Uint8Array => {
    const id = createHash("sha256").update(bytes).digest();
    this.pages.set(id.toString("hex"), bytes);
    return new Uint8Array(id);
  };

  readonly read = async (pageIds: readonly Uint8Array[]) => {
    this.rounds++;
    return pageIds.map((id) => {
      const page = this.pages.get(Buffer.from(id).toString("hex"));
      return page === undefined ? undefined : idsIn(page);
    });
  };
}

async function readBack(list: IdList, shelf: Shelf): Promise<readonly Uint8Array[]> {
  const entries = await allIds(list, shelf.read);
  assert.ok(entries.every(({ kind }) => kind === "id"));
  return entries.map(({ id }) => id);
}

async function newest(list: IdList, shelf: Shelf): Promise<readonly Uint8Array[]> {
  const found: Uint8Array[] = [];
  for await (const id of newestIds(list, shelf.read)) found.push(id);
  return found;
}

/** In a checkpoint. */
function bytesOf({ ids: messages, pages: messagePages }: IdList): number {
  const state = create(ConversationStateSchema, {
    messages: [...messages],
    messagePages: [...messagePages],
  });
  return toBinary(ConversationStateSchema, state).length;
}

test("whatever is added in whatever portions, the list reads back, from either end", async () => {
  const portions = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(portions, async (counts) => {
      const shelf = new Shelf();
      let list = NO_IDS;
      for (const count of counts) list = withIds(list, ids(countOf(list), count), shelf.put);
      checkIds(list);
      const all = ids(0, countOf(list));
      assert.deepEqual(await readBack(list, shelf), all);
      assert.deepEqual(await newest(list, shelf), all.toReversed());
      // However it came about, equal lists are equal, down to their pages.
      assert.deepEqual(withIds(NO_IDS, all, shelf.put), list);
    }),
    { numRuns: 60 },
  );
});

test("an id more fills at most a page of each size, leaves all others alone, and a state has a bound", () => {
  const shelf = new Shelf();
  let list = NO_IDS;
  let largest = 0;
  let written = 0;
  for (let at = 0; at < 10_000; at++) {
    let filled = 0;
    const put = (bytes: Uint8Array): Uint8Array => {
      filled++;
      return shelf.put(bytes);
    };
    list = withIds(list, [idAt(at)], put);
    assert.ok(filled <= 3 && list.ids.length <= PAGE_IDS && list.ids.at(-1) !== undefined);
    for (const count of [16, 256, 4_096]) {
      assert.ok(list.pages.filter((page) => page.count === count).length < PAGE_IDS);
    }
    largest = Math.max(largest, bytesOf(list));
    written += filled;
  }
  assert.equal(shelf.pages.size, written, "no page was written twice");
  assert.ok(written < 10_000 / 15, `${written} pages`);
  assert.ok(largest < 2_048, `${largest} bytes`);
});

test("somebody who has nothing reads a list in as many rounds as there are sizes", async () => {
  for (const [count, rounds] of [
    [16, 0],
    [17, 1],
    [1_000, 2],
    [5_000, 3],
  ] as const) {
    const shelf = new Shelf();
    await readBack(withIds(NO_IDS, ids(0, count), shelf.put), shelf);
    assert.equal(shelf.rounds, rounds, `${count} ids`);
  }
});

test("the newest id can be replaced without reading a page, also when it is the first behind one", async () => {
  const shelf = new Shelf();
  for (const count of [1, 16, 17, 33, 257]) {
    const list = withIds(NO_IDS, ids(0, count), shelf.put);
    const replaced = withIds(withoutNewest(list, 1), [idAt(9_999)], shelf.put);
    assert.deepEqual(await readBack(replaced, shelf), [...ids(0, count - 1), idAt(9_999)]);
  }
});

test("a list from before there were pages reads as it is, and is in pages from the next id on", async () => {
  const shelf = new Shelf();
  const state = create(ConversationStateSchema, { messages: [...ids(0, 100)], turns: [...ids(0, 3)] });
  assert.deepEqual(await readBack(messageIds(state), shelf), ids(0, 100));
  assert.equal(countOf(turnIds(state)), 3);
  const next = withIds(messageIds(state), [idAt(100)], shelf.put);
  assert.deepEqual(next, withIds(NO_IDS, ids(0, 101), shelf.put));
});

test("a page that cannot be read stands where its ids would, and everything beside it is there", async () => {
  const shelf = new Shelf();
  const list = withIds(NO_IDS, ids(0, 40), shelf.put);
  const [first] = list.pages;
  assert.ok(first !== undefined);
  shelf.pages.delete(Buffer.from(first.page).toString("hex"));
  const entries = await allIds(list, shelf.read);
  assert.deepEqual(entries[0], { kind: "page", id: first.page });
  assert.deepEqual(
    entries.slice(1).map(({ id }) => id),
    ids(16, 24),
  );
  assert.deepEqual(await newest(list, shelf), ids(16, 24).toReversed());
});

const pageOf = (count: number, page: Uint8Array = idAt(0)) => create(PageOfIdsSchema, { page, count });
const isInvalid = (error: unknown): boolean =>
  error instanceof HoldfastError && error.code === "invalid_frame";

test("E8: a list that cannot be, or is longer than anybody reads, is refused before a page is read", async () => {
  const page = pageOf(4_096);
  checkIds({ pages: Array.from({ length: 15 }, () => page), ids: ids(0, 4_096) });
  const refused: readonly IdList[] = [
    { pages: Array.from({ length: 15 }, () => page), ids: ids(0, 4_097) },
    { pages: [pageOf(17)], ids: [] },
    { pages: [pageOf(0)], ids: [] },
    { pages: [pageOf(LIST_IDS_MAX)], ids: [] },
    { pages: [pageOf(16), pageOf(256)], ids: [] },
    { pages: [pageOf(16, new Uint8Array(31))], ids: [] },
    { pages: [], ids: [new Uint8Array(33)] },
  ];
  const shelf = new Shelf();
  for (const list of refused) {
    assert.throws(() => checkIds(list), isInvalid);
    await assert.rejects(allIds(list, shelf.read), isInvalid);
    // Whoever only looks for the newest gets those that are in no page.
    assert.deepEqual(await newest(list, shelf), list.ids.toReversed());
  }
  assert.equal(shelf.rounds, 0);
});

test("E8: a page has sixteen ids and nothing to speak of beside them", () => {
  const encoded = (count: number): Uint8Array =>
    toBinary(IdPageSchema, create(IdPageSchema, { ids: [...ids(0, count)] }));
  assert.equal(idsIn(encoded(PAGE_IDS)).length, PAGE_IDS);
  const short = create(IdPageSchema, { ids: Array.from({ length: PAGE_IDS }, () => new Uint8Array(31)) });
  for (const page of [encoded(15), encoded(17), encoded(40), new Uint8Array(), Uint8Array.of(0xff)]) {
    assert.throws(() => idsIn(page), isInvalid);
  }
  assert.throws(() => idsIn(toBinary(IdPageSchema, short)), isInvalid);
  // What a newer version adds is passed over, up to a bound: a field 15 of 256 bytes, and of 512.
  const page = encoded(PAGE_IDS);
  const more = (size: number): Uint8Array =>
    Buffer.concat([page, Uint8Array.of(0x7a, 0x80, size / 128), new Uint8Array(size)]);
  assert.equal(idsIn(more(256)).length, PAGE_IDS);
  assert.throws(() => idsIn(more(512)), isInvalid);
});
