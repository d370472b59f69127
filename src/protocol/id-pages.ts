/**
 * Lists of blob ids that only grow, as a conversation's state names them: the newest ids themselves, the older ones in pages.
 *
 * A page is a blob with sixteen ids; sixteen pages of one size are named by one of the next. So a state has at most fifteen
 * pages of each size, whatever the length of the list; an id that is added fills at most one page of each size, once and for all; and
 * a reader that has nothing gets the whole list in as many rounds as there are sizes.
 *
 * Invariant: equal lists have equal pages, and the newest id is never in a page, so the last one can be replaced without
 * reading anything.
 */
import { create, encoded, fromBinary } from "./message.ts";
import { invalidFrame } from "./frame-check.ts";
import { type ConversationState, IdPageSchema, type PageOfIds, PageOfIdsSchema } from "./messages.ts";

/**
 * Of one page. Small, because what does not fill one is in every checkpoint and every first chunk; not smaller, because a
 * page costs a blob, and a server without memory a round for each size.
 */
export const PAGE_IDS = 16;

const PAGE_COUNTS: readonly number[] = [PAGE_IDS, PAGE_IDS ** 2, PAGE_IDS ** 3];

/** A longer list is not read: pages that name each other over and over stay harmless. */
export const LIST_IDS_MAX: number = PAGE_IDS ** 4;

const ID_BYTES = 32;
/** Sixteen ids with their tags, and room for what a newer version may add. */
const PAGE_BYTES_MAX = 1_024;

export interface IdList {
  readonly pages: readonly PageOfIds[];
  readonly ids: readonly Uint8Array[];
}

export const NO_IDS: IdList = { pages: [], ids: [] };

export function messageIds(state: ConversationState | undefined): IdList {
  return state === undefined ? NO_IDS : { pages: state.messagePages, ids: state.messages };
}

export function turnIds(state: ConversationState | undefined): IdList {
  return state === undefined ? NO_IDS : { pages: state.turnPages, ids: state.turns };
}

export function countOf({ pages, ids }: IdList): number {
  return pages.reduce((sum, { count }) => sum + count, ids.length);
}

/** Throws `invalid_frame` for what is no list, or one that is too long. */
export function checkIds(list: IdList): void {
  const fault = faultOf(list);
  if (fault !== undefined) throw invalidFrame(fault);
}

function faultOf(list: IdList): string | undefined {
  const { pages, ids } = list;
  const counts = pages.map(({ count }) => count);
  const isFalling = counts.every(
    (count, at) => PAGE_COUNTS.includes(count) && count <= (counts[at - 1] ?? count),
  );
  const areIds = [...pages.map(({ page }) => page), ...ids].every(isId);
  if (!isFalling || !areIds) return "a list of blob ids is not in order";
  return countOf(list) > LIST_IDS_MAX ? `a list has at most ${LIST_IDS_MAX} blob ids` : undefined;
}

function isId({ length }: Uint8Array): boolean {
  return length === ID_BYTES;
}

/** The list with more ids behind it. `put` gets each page that this fills, and says its blob id. */
export function withIds(
  list: IdList,
  added: readonly Uint8Array[],
  put: (page: Uint8Array) => Uint8Array,
): IdList {
  const pages = [...list.pages];
  const ids = [...list.ids, ...added];
  while (ids.length > PAGE_IDS) {
    pages.push(pageOf(ids.splice(0, PAGE_IDS), PAGE_IDS, put));
    for (const count of PAGE_COUNTS.slice(1)) joinPages(pages, count, put);
  }
  return { pages, ids };
}

/** As soon as there are enough pages to fill a larger one, they do. */
function joinPages(pages: PageOfIds[], count: number, put: (page: Uint8Array) => Uint8Array): void {
  const last = pages.slice(-PAGE_IDS);
  if (last.length < PAGE_IDS || last.some((one) => one.count !== count / PAGE_IDS)) return;
  const joined = last.map(({ page }) => page);
  pages.splice(-PAGE_IDS, PAGE_IDS, pageOf(joined, count, put));
}

function pageOf(ids: Uint8Array[], count: number, put: (page: Uint8Array) => Uint8Array): PageOfIds {
  const page = put(encoded(IdPageSchema, { ids }));
  return create(PageOfIdsSchema, { page, count });
}

/** The list without its newest ids, as far as they are in no page. */
export function withoutNewest({ pages, ids }: IdList, count: number): IdList {
  return { pages, ids: ids.slice(0, Math.max(0, ids.length - count)) };
}

/** The ids in a page. Throws `invalid_frame` for what is no page. */
export function idsIn(page: Uint8Array): readonly Uint8Array[] {
  if (page.length > PAGE_BYTES_MAX)
    throw invalidFrame(`a page of blob ids has at most ${PAGE_BYTES_MAX} bytes`);
  let ids: readonly Uint8Array[] = [];
  try {
    ({ ids } = fromBinary(IdPageSchema, page));
  } catch (cause) {
    throw invalidFrame("a page of blob ids cannot be read", cause);
  }
  if (ids.length !== PAGE_IDS || !ids.every(isId)) throw invalidFrame(`a page has ${PAGE_IDS} blob ids`);
  return ids;
}

/** The ids in each of these pages; undefined for a page that cannot be read. */
export type ReadPages = (
  pageIds: readonly Uint8Array[],
) => Promise<readonly (readonly Uint8Array[] | undefined)[]>;

/** An id of the list, or a page that could not be read and stands where its ids would. */
export interface IdEntry {
  readonly kind: "id" | "page";
  readonly id: Uint8Array;
}

interface Part {
  readonly id: Uint8Array;
  /** How many ids it stands for. An id stands for itself, and a page that cannot be read for nothing. */
  readonly count: number;
}

function partsOf({ pages, ids }: IdList): readonly Part[] {
  return [...pages.map(({ page, count }) => ({ id: page, count })), ...ids.map((id) => ({ id, count: 1 }))];
}

function isPage({ count }: Part): boolean {
  return count > 1;
}

function partsIn(page: Part, ids: readonly Uint8Array[] | undefined): readonly Part[] {
  if (ids === undefined) return [{ id: page.id, count: 0 }];
  return ids.map((id) => ({ id, count: page.count / PAGE_IDS }));
}

/**
 * The ids of a list as far as its pages are in hand, oldest first; `missing` names the pages to get before asking again. Throws as
 * `checkIds` does.
 */
export function idsInHand(
  list: IdList,
  page: (pageId: Uint8Array) => readonly Uint8Array[] | undefined,
): { readonly ids: readonly Uint8Array[]; readonly missing: readonly Uint8Array[] } {
  checkIds(list);
  const ids: Uint8Array[] = [];
  const missing: Uint8Array[] = [];
  const open = (part: Part): void => {
    const inside = isPage(part) ? page(part.id) : [];
    if (!isPage(part)) ids.push(part.id);
    else if (inside === undefined) missing.push(part.id);
    else for (const one of partsIn(part, inside)) open(one);
  };
  for (const part of partsOf(list)) open(part);
  return { ids, missing };
}

/** All ids of a list, oldest first. The pages of a round are asked for at once. Throws as `checkIds` does. */
export async function allIds(list: IdList, read: ReadPages): Promise<readonly IdEntry[]> {
  checkIds(list);
  let parts = partsOf(list);
  while (parts.some(isPage)) {
    const pages = parts.filter(isPage);
    const found = await read(pages.map(({ id }) => id));
    const inside = new Map(pages.map((page, at) => [page, partsIn(page, found[at])]));
    parts = parts.flatMap((part) => inside.get(part) ?? [part]);
  }
  return parts.map(({ id, count }) => ({ kind: count === 1 ? "id" : "page", id }));
}

/**
 * The ids of a list, newest first, for callers that need few of them. Pages that cannot be read are passed over, and so are all where
 * they are not in an order that is known here: a caller must not be stuck with what a newer server wrote.
 */
export async function* newestIds(list: IdList, read: ReadPages): AsyncGenerator<Uint8Array, void, undefined> {
  const parts = [...partsOf(faultOf(list) === undefined ? list : { pages: [], ids: list.ids })];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    if (part.count === 1) yield part.id;
    if (!isPage(part)) continue;
    const [found] = await read([part.id]);
    parts.push(...partsIn(part, found));
  }
}
