/** OpenAI's shapes, without I/O: requests in, answers and errors out, and the lineage between them. */
export { answerLine, endError } from "./answer.ts";
export type { AnswerCall, AnswerDelta, Finish, Said } from "../../turn/answer-delta.ts";
export { type AnswerState, initAnswer, neededBlob, project } from "../../turn/answer.ts";
export {
  type AnswerEvent,
  type ProjectedRange,
  projectRange,
  withoutRolledBack,
} from "../../turn/rollback.ts";
export type { Usage as AnswerUsage } from "../../turn/usage.ts";
export { ChatChunks, type ChunkOptions, completionId } from "./chat-chunks.ts";
export { AnswerCollector, type ChatCompletion } from "./chat-completion.ts";
export {
  cacheControlOf,
  type ContentRules,
  decodeBase64,
  fileOf,
  imagePart,
  textOfParts,
} from "./chat-content.ts";
export { CHAT_FORM } from "./chat-form.ts";
export { givenMessages, MESSAGES_MAX } from "./chat-messages.ts";
export { formatOf, type StepOptionsInit, UINT32_MAX, withoutAbsent } from "./chat-options.ts";
export { parseChatRequest } from "./chat-request.ts";
export { distinct, functionTool, MODES, type RequestTool, TOOLS_MAX } from "./chat-tools.ts";
export {
  type AnswerForm,
  type AnswerFrames,
  type AnswerHead,
  type AnswerRequest,
  type Collector,
  type Door,
  DOORS,
} from "./door.ts";
export { Fields } from "./fields.ts";
export { failureError, toGatewayError } from "./failures.ts";
export {
  type Frame,
  type FrameKind,
  type FramePlace,
  framePlaceId,
  parseFramePlace,
  sseFrame,
} from "./frames.ts";
export {
  type ErrorBody,
  errorBody,
  errorHeaders,
  type ErrorType,
  GatewayError,
  type GatewayErrorInit,
  invalidRequest,
} from "./gateway-error.ts";
export {
  type ChatHistory,
  type RequestSplit,
  type SaidLine,
  splitRequest,
  toChatMessages,
} from "./history.ts";
export type {
  AssistantLine,
  LineCall,
  LineFile,
  LineMessage,
  LinePart,
  LineText,
  LineThought,
  OpenedThought,
  OpenThought,
  SystemLine,
  ToolLine,
  UserLine,
} from "./line.ts";
export { chain, EMPTY_CHAIN, levelled, type Lineage, lineageOf, systemHash, toolsHash } from "./lineage.ts";
export { type ListedModel, modelList, type ModelObject, modelObject } from "./model-list.ts";
export { ignoredHeader } from "./wishes.ts";
