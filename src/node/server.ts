/**
 * A server put together by hand: streams with an application of one's own, or the agent on a store and a transport of one's choice. `serve` puts the usual one
 * together.
 */
export { type AgentOptions, createAgent, type TurnLimits } from "../agent/index.ts";
export {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
  type ModelTool,
} from "../agent/model.ts";
export {
  createModels,
  type ModelsConfig,
  type ProviderConfig,
  rehearsalModel,
} from "../agent/models/index.ts";
export { HoldfastError } from "../protocol/errors.ts";
export { nodeSealing } from "../sealing/node.ts";
export {
  type Authenticate,
  type HttpOptions,
  type HttpServer,
  serveHttp,
  type SignedIn,
} from "../server/http/index.ts";
export {
  ApiKeys,
  type Application,
  type ApplicationBlobs,
  type ApplicationStream,
  type ClientInput,
  createServer,
  type PastEvent,
  type Server,
  type ServerOptions,
} from "../server/index.ts";
export { memoryBlobStore, memoryStreamStore, openSqliteStore } from "../store/index.ts";
export type { BlobStore, StreamStore, TableStore } from "../store/index.ts";
export { type Accept, type BlobCalls, type Connect, memoryTransport } from "../transport/index.ts";
