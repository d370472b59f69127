import { memoryBlobStore, memoryConversationStore } from "../../../src/client/index.ts";
import { clientStoresConformance } from "../../conformance/client-stores.ts";

clientStoresConformance(
  "memory",
  async (clock) => {
    const blobs = memoryBlobStore(() => clock.nowMs);
    const records = memoryConversationStore();
    return { blobs, records, reopen: async () => ({ blobs, records }) };
  },
  { damageable: false },
);
