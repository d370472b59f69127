/** Anthropic's Messages, without I/O: requests in, events, objects and errors out. */
export { messageErrorBody } from "./message-errors.ts";
export { MESSAGE_FORM, messageIdOf } from "./message-form.ts";
export { messageModelList, messageModelObject, type ModelPage } from "./message-models.ts";
export { parseMessageRequest } from "./message-request.ts";
export { countTokens } from "./token-count.ts";
