/** OpenAI's Responses, without I/O: requests in, events and objects out. */
export { responseIdOf } from "./ids.ts";
export { eventOf } from "./response-events.ts";
export { ResponseCollector, responseForm } from "./response-form.ts";
export { type ResponseEnd, responseObject, STATUSES, underWay } from "./response-object.ts";
export { withoutTokens } from "./response-output.ts";
export {
  type KeptItems,
  parseResponseRequest,
  type ResponseRequest,
  showsSealed,
} from "./response-request.ts";
