/** Turns and conversations over the client's streams, for Node and browsers alike. */
export { blobIdOf, type ClientBlobStore, memoryBlobStore, putBytes, type StoredBlob } from "./blob-store.ts";
export type { ConversationClient } from "./conversation-context.ts";
export {
  changedElsewhere,
  type ClientStores,
  type ConversationRecord,
  type ConversationStore,
  type LastTurn,
  memoryConversationStore,
  memoryStores,
  type TurnKind,
  type TurnUnderWay,
} from "./conversation-store.ts";
export { Conversation, type SendOptions } from "./conversation.ts";
export {
  type BeginOptions,
  Conversations,
  type ConversationsOptions,
  type ResumedTurns,
} from "./conversations.ts";
export type { FullAgentTurn, FullConversation, FullShellTurn, Item, Missing } from "./full-conversation.ts";
export { type Reachable, reach } from "./blob-walk.ts";
export { GRACE_MS, type GarbageReport } from "./garbage.ts";
export { answerKv, answerTo, encodeKvAnswer, type KvAnswer, type KvStream } from "./kv.ts";
export type { NewAttachment, OfferedTools, SaidByUser, StepOptionsInit, TurnInput } from "./run-request.ts";
export {
  type ExecMessage,
  type Heard,
  type InteractionMessage,
  SPLIT_DEFAULTS,
  type SplitOptions,
  type SplitStream,
  splitStream,
  type SubStreamName,
} from "./split-stream.ts";
export {
  type ChildNames,
  childNames,
  type SubagentOptions,
  type SubagentRunner,
  subagentRunner,
} from "./subagent.ts";
export type { QueryAnswer } from "./turn-queries.ts";
export { decodeView, encodeView } from "../../turn/view-codec.ts";
export { reduce } from "../../turn/view-fold.ts";
export {
  answered,
  type AttachmentView,
  emptyView,
  type EndView,
  type FailureView,
  lastText,
  type ListedTodo,
  type PendingQuery,
  spokenText,
  type TextView,
  type ThinkingView,
  type TodoView,
  type ToolView,
  type TurnEnd,
  type TurnView,
  type UserMessageView,
  type UserView,
  type ViewPart,
} from "../../turn/view.ts";
export type { ToolOutcomeName } from "../../turn/tool-outcome.ts";
export type { Usage as UsageView } from "../../turn/usage.ts";
export { type OnQuery, Turn, type TurnListener } from "./turn.ts";
export type {
  Retract,
  SettledPart,
  StatePart,
  ToolOutputPart,
  ToolPart,
  TurnPart,
} from "../../turn/parts.ts";
