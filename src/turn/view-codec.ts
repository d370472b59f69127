/**
 * A view as bytes, for snapshots: a restarted client shows what it had shown, without asking for the events again.
 *
 * JSON with a format number. What opens under the journal's seal is what this client wrote, so beyond the
 * format nothing is checked; of a view of another format only what comes after it is shown.
 */
import { bytesOfHex, hexOf } from "../protocol/bytes.ts";
import { fromBinary, toBinary } from "../protocol/message.ts";
import { InteractionQuerySchema } from "../protocol/messages.ts";
import { EMPTY_TOOL } from "./tool-view.ts";
import { EMPTY_VIEW, type PendingQuery, type TurnView, type ViewPart } from "./view.ts";

/** 2: a part is known by its `type`. 3: a query is the bytes of the wire, in hexadecimal digits. */
const FORMAT = 3;

interface StoredView extends Omit<TurnView, "queries" | "mark"> {
  readonly queries: readonly { readonly eventId: number; readonly query: string }[];
  readonly mark?: StoredView | undefined;
}

interface Snapshot {
  readonly format: typeof FORMAT;
  readonly view: StoredView;
}

export function encodeView(view: TurnView): Uint8Array {
  const snapshot: Snapshot = { format: FORMAT, view: stored(view) };
  return new TextEncoder().encode(JSON.stringify(snapshot));
}

/** Undefined for what is no view of this format. */
export function decodeView(bytes: Uint8Array): TurnView | undefined {
  let snapshot: unknown;
  try {
    snapshot = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
  return isSnapshot(snapshot) ? restored(snapshot.view) : undefined;
}

function stored(view: TurnView): StoredView {
  const queries = view.queries.map(({ eventId, query }) => ({
    eventId,
    query: hexOf(toBinary(InteractionQuerySchema, query)),
  }));
  return { ...view, queries, mark: view.mark === undefined ? undefined : stored(view.mark) };
}

function restored(view: StoredView): TurnView {
  const queries = view.queries.map(({ eventId, query }): PendingQuery => ({
    eventId,
    query: fromBinary(InteractionQuerySchema, bytesOfHex(query)),
  }));
  const mark = view.mark === undefined ? undefined : restored(view.mark);
  return {
    ...EMPTY_VIEW,
    ...view,
    userMessages: userMessagesOf(view),
    parts: view.parts.map(whole),
    todos: todosOf(view),
    end: endOf(view),
    queries,
    mark,
  };
}

/** JSON leaves out what is undefined. */
function whole(part: ViewPart): ViewPart {
  if (part.type === "tool") return { ...EMPTY_TOOL, ...part };
  return part.type === "thinking" ? { ...part, durationMs: part.durationMs } : part;
}

function userMessagesOf({ userMessages }: StoredView): TurnView["userMessages"] {
  return userMessages.map((message) => ({
    ...message,
    attachments: message.attachments.map((attachment) => ({ ...attachment, blobId: attachment.blobId })),
  }));
}

function todosOf({ todos }: StoredView): TurnView["todos"] {
  return todos.map(({ blobId, item }) => ({ blobId, item }));
}

function endOf({ end }: StoredView): TurnView["end"] {
  if (end === undefined) return undefined;
  const { failure } = end;
  return {
    reason: end.reason,
    failure: failure === undefined ? undefined : { ...failure, retryAfterMs: failure.retryAfterMs },
  };
}

function isSnapshot(value: unknown): value is Snapshot {
  return (
    typeof value === "object" &&
    value !== null &&
    "format" in value &&
    value.format === FORMAT &&
    "view" in value
  );
}
