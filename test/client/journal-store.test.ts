import { memoryJournalStore } from "../../src/client/memory-journal-store.ts";
import { journalStoreConformance, type JournalStoreUnderTest } from "../conformance/journal-store.ts";
import { SimDisk, SimJournalStore, SimProcess, World } from "../simulation/world/index.ts";

journalStoreConformance("the memory journal store", () => {
  const store = memoryJournalStore();
  return { store, reopen: () => store, settle: (promise) => promise };
});

const simulated = (): JournalStoreUnderTest => {
  const world = new World(1);
  const disk = new SimDisk(world, "disk");
  let process = new SimProcess(world, "client");
  return {
    store: disk.openJournalStore(process),
    reopen() {
      process = process.restart();
      return disk.openJournalStore(process);
    },
    async settle(promise) {
      // Somebody listens from the beginning, or the world would take a refusal for a forgotten promise.
      promise.catch(() => {});
      await world.run();
      return promise;
    },
    damage(idempotencyKey) {
      disk.flipBit(SimJournalStore.fileOf(idempotencyKey));
    },
  };
};

journalStoreConformance("the simulated journal store", simulated, { damageable: true });
