/** Is present in a directory until it is killed, and says under which id. */
import { announce } from "../../../src/client-node/presence.ts";

const [, , directory = ""] = process.argv;
const presence = announce(directory);
process.send?.(`present ${presence.id}`);
process.on("message", () => {
  presence.release();
  process.send?.("gone");
});
