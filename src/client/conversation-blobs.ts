/**
 * A conversation that the server keeps, beside its streams: its blobs can be put before there is a stream, read after the last one
 * is gone, and forgotten.
 */
import { SteadyClock } from "../transport/environment.ts";
import type { ClientMeta, ConversationAccess } from "../transport/transport.ts";
import { blobTransfers } from "./blob-transfers.ts";
import type { ClientOptions, KeptConversation } from "./client-options.ts";
import type { StreamContext } from "./stream-context.ts";

export interface ConversationBlobs {
  /** Resolves with the id once the server has the blob on its disk. */
  put(bytes: Uint8Array): Promise<string>;
  /** Rejects with `not_found` when the server keeps no such blob, or not under this key. */
  get(id: string): Promise<Uint8Array>;
  /** Deletes all of them, at once. */
  forget(): Promise<void>;
}

type Context = Parameters<typeof blobTransfers>[0] & Pick<StreamContext, "credentials">;

export async function accessTo<HomeKey>(
  { id, keepMs }: KeptConversation,
  { sealing, homeKey, principal = "" }: ClientOptions<HomeKey>,
): Promise<ConversationAccess> {
  return { key: await sealing.deriveConversationKey(homeKey, principal, id), keepMs };
}

/** These calls mean no stream; the header that names one is not empty. */
const NO_STREAM = "conversation";

export function conversationBlobs(context: Context, access: ConversationAccess): ConversationBlobs {
  let known: string | undefined;
  const meta = (): ClientMeta => ({
    idempotencyKey: NO_STREAM,
    streamKey: access.key,
    conversation: access,
    credentials: known,
  });
  const renewCredentials = async (): Promise<void> => {
    known = await context.credentials();
  };
  const transfers = blobTransfers(context, new SteadyClock(context.environment), { meta, renewCredentials });
  // It needs no stream.
  transfers.welcomed();
  const begun = renewCredentials();
  begun.catch(() => undefined);
  return {
    put: async (bytes) => begun.then(() => transfers.put(bytes)),
    get: async (id) => begun.then(() => transfers.get(id)),
    forget: async () => begun.then(() => transfers.forget()),
  };
}
