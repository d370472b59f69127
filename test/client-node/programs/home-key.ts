/** Opens the journals of a workspace and says a hash of their home key, and each notice. */
import { createHash } from "node:crypto";
import { openJournals } from "../../../src/client-node/journals.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";

const [, , directory = ""] = process.argv;
const journals = await openJournals({
  scope: "workspace",
  directory,
  homeKey: undefined,
  keyring: false,
  server: "",
  sealing: nodeSealing(),
  onNotice: (notice) => void process.send?.(`notice ${notice}`),
});
await journals.close();
process.send?.(`key ${createHash("sha256").update(journals.homeKey).digest("hex")}`);
process.disconnect();
