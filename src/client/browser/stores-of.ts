/**
 * Where a client in a browser keeps its conversations: beside its journals, or in memory with persistence off.
 *
 * A function and no field of the client, so a page that only follows streams does not load it.
 */
import { type ClientStores, memoryStores } from "../agent/conversation-store.ts";
import { indexedDbBlobStore } from "./blobs.ts";
import type { BrowserClient } from "./browser-client.ts";
import { indexedDbConversationStore } from "./conversations.ts";

/** For `new Conversations({ client, ...storesOf(client) })`. */
export function storesOf({ shelf }: BrowserClient): ClientStores {
  if (shelf === undefined) return memoryStores();
  const { database, sealer } = shelf;
  return {
    blobs: indexedDbBlobStore(database, sealer),
    records: indexedDbConversationStore(database, sealer),
  };
}
