/**
 * The conversation as a checkpoint: which blobs it is made of, and the state that names them.
 *
 * Everything is derived from what the turn's logs hold. The messages of the conversation so far stay as they are, in front; a
 * turn only appends, and only a summary begins anew. Lists that grow are kept in pages, which are blobs like all others, so a
 * state does not grow with what was said before.
 */
import { create, type MessageInitShape, toBinary } from "../protocol/message.ts";
import type { ToolCallPart } from "../protocol/chat-message.ts";
import { countOf, LIST_IDS_MAX, messageIds, NO_IDS, turnIds, withIds } from "../protocol/id-pages.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  BlobKind,
  type ConversationState,
  ConversationStateSchema,
  ShellCommandActionSchema,
  type ShellCommandAction,
  type ShellSuccess,
  ShellSuccessSchema,
  StepBlobSchema,
  TodoItemSchema,
  TodoStatus,
  type ToolCall,
  TurnBlobSchema,
  type UserMessage,
  UserMessageSchema,
} from "../protocol/messages.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import type { Todo } from "./call-plan.ts";
import type { IdOf } from "./found.ts";
import type { Written } from "./written.ts";
import { inline } from "./content.ts";

/** A blob that the client is asked to keep. */
export interface KeptBlob {
  readonly id: string;
  readonly bytes: Uint8Array;
  readonly kind: BlobKind;
}

export interface Draft {
  readonly state: ConversationState;
  /** All that the turn adds, in an order in which they can be set. */
  readonly blobs: readonly KeptBlob[];
  /** The ids of those that the client has not said it keeps, as far as that was looked at. */
  unkept: readonly string[];
}

/** A step as it is shown: what the model said, and how its calls went. */
export interface ShownStep {
  readonly message: Written;
  readonly over: ReadonlyMap<string, ToolCall>;
}

/** What a turn makes of the conversation. */
interface TurnContents {
  readonly before: ConversationState | undefined;
  readonly messages: readonly Written[];
  readonly todos: readonly Todo[] | undefined;
  readonly usedTokens: number;
  readonly maxTokens: number;
  /** Set when the messages so far are replaced by it. */
  readonly summary?: string;
  /** Absent while the turn runs. */
  readonly shown?: ShownTurn;
}

export type ShownTurn =
  | {
      readonly kind: "agent";
      /** Absent for a turn that continued without a message. */
      readonly user: UserMessage | undefined;
      /** What followed, in order: steps, and what the user said meanwhile. */
      readonly followed: readonly (ShownStep | UserMessage)[];
    }
  | { readonly kind: "shell"; readonly command: ShellCommandAction; readonly output: ShellSuccess };

const encoder = new TextEncoder();

export function draftOf(turn: TurnContents, idOf: IdOf): Draft {
  const blobs = new Map<string, KeptBlob>();
  const add = (bytes: Uint8Array, kind: BlobKind, id = idOf(bytes)): Uint8Array => {
    if (!blobs.has(id)) blobs.set(id, { id, bytes, kind });
    return blobIdBytes(id);
  };
  const { before, summary, shown } = turn;
  const addPage = (bytes: Uint8Array): Uint8Array => add(bytes, BlobKind.ID_PAGE);
  const own = turn.messages.map(({ bytes, kind, blobId }) => add(bytes, kind, blobId));
  const messages = withIds(summary === undefined ? messageIds(before) : NO_IDS, own, addPage);
  const turns = withIds(turnIds(before), shown === undefined ? [] : [addTurn(shown, add)], addPage);
  const init: MessageInitShape<typeof ConversationStateSchema> = {
    messages: [...messages.ids],
    messagePages: [...messages.pages],
    todos:
      turn.todos === undefined
        ? (before?.todos ?? [])
        : turn.todos.map((todo) => add(todoBytes(todo), BlobKind.TODO)),
    tokenDetails: { usedTokens: turn.usedTokens, maxTokens: turn.maxTokens },
    summary:
      summary === undefined
        ? (before?.summary ?? new Uint8Array())
        : add(encoder.encode(summary), BlobKind.SUMMARY),
    turns: [...turns.ids],
    turnPages: [...turns.pages],
    subagentStates: before?.subagentStates ?? [],
  };
  return {
    state: create(ConversationStateSchema, init),
    blobs: [...blobs.values()],
    unkept: [...blobs.keys()],
  };
}

type Add = (bytes: Uint8Array, kind: BlobKind) => Uint8Array;

function addTurn(shown: ShownTurn, add: Add): Uint8Array {
  if (shown.kind === "shell") {
    const turn = {
      shellCommand: add(toBinary(ShellCommandActionSchema, shown.command), BlobKind.SHELL_COMMAND),
      shellOutput: add(toBinary(ShellSuccessSchema, shown.output), BlobKind.SHELL_OUTPUT),
    };
    return add(encodeTurn({ case: "shellTurn", value: turn }), BlobKind.TURN);
  }
  const { user, followed } = shown;
  const said =
    user === undefined ? new Uint8Array() : add(toBinary(UserMessageSchema, user), BlobKind.USER_MESSAGE);
  const steps = followed
    .flatMap((one) => ("over" in one ? stepBlobs(one) : [encodeStep({ case: "userMessage", value: one })]))
    .map((bytes) => add(bytes, BlobKind.STEP));
  return add(encodeTurn({ case: "agentTurn", value: { userMessage: said, steps } }), BlobKind.TURN);
}

function encodeTurn(turn: NonNullable<MessageInitShape<typeof TurnBlobSchema>["turn"]>): Uint8Array {
  return toBinary(TurnBlobSchema, create(TurnBlobSchema, { turn }));
}

function stepBlobs({ message, over }: ShownStep): readonly Uint8Array[] {
  if (message.message.role !== "assistant") return [];
  return message.message.content.map((part) => {
    const providerMetadata = encoder.encode(
      part.providerMetadata === undefined ? "" : JSON.stringify(part.providerMetadata),
    );
    switch (part.type) {
      case "text":
        return encodeStep({ case: "assistantMessage", value: { text: part.text, providerMetadata } });
      case "reasoning":
        return encodeStep({ case: "thinkingMessage", value: { text: part.text, providerMetadata } });
      case "tool-call":
        return encodeStep({
          case: "toolCall",
          value: shownCall(part, over.get(part.toolCallId), providerMetadata),
        });
    }
  });
}

function shownCall(
  part: ToolCallPart,
  call: ToolCall | undefined,
  providerMetadata: Uint8Array,
): Extract<StepInit, { case: "toolCall" }>["value"] {
  return {
    toolCallId: part.toolCallId,
    tool: part.tool,
    argsJson: inline(encoder.encode(part.args)),
    providerMetadata,
    ...(call === undefined ? {} : { outcome: call.outcome, execIds: call.execIds, files: call.files }),
    ...(call?.result === undefined ? {} : { result: call.result }),
  };
}

type StepInit = NonNullable<MessageInitShape<typeof StepBlobSchema>["step"]>;

function encodeStep(step: StepInit): Uint8Array {
  return toBinary(StepBlobSchema, create(StepBlobSchema, { step }));
}

const STATUSES: Readonly<Record<Todo["status"], TodoStatus>> = {
  pending: TodoStatus.PENDING,
  in_progress: TodoStatus.IN_PROGRESS,
  completed: TodoStatus.COMPLETED,
  cancelled: TodoStatus.CANCELLED,
};

function todoBytes({ id, text, status }: Todo): Uint8Array {
  return toBinary(TodoItemSchema, create(TodoItemSchema, { id, text, status: STATUSES[status] }));
}

/** Room for the fields around it. */
const STATE_BYTES_MAX = LIMITS.eventBytesMax - 1_024;

/** Whether a state is more than an event, or the lists it names, can hold. */
export function isTooLong(state: ConversationState): boolean {
  const isLong = [messageIds(state), turnIds(state)].some((ids) => countOf(ids) > LIST_IDS_MAX);
  return isLong || toBinary(ConversationStateSchema, state).length > STATE_BYTES_MAX;
}
