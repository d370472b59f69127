/**
 * Plants one bug: patches the text of production files as they are loaded.
 *
 * `node --import ./plant.ts` with the bug's patches, as JSON, in `HOLDFAST_PATCHES`. Production code has no hook
 * for this and knows nothing of it; what runs is the production path with one rule broken. A patch
 * whose text is not found exactly once fails loudly: the table must follow the code.
 */
import { registerHooks } from "node:module";
import { applyPatch, readPatches } from "./patch.ts";

const patches = readPatches(process.env["HOLDFAST_PATCHES"] ?? "");
const root = new URL("../../../", import.meta.url);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const here = patches.filter(({ file }) => new URL(file, root).href === url);
    if (here.length === 0 || loaded.source === undefined || loaded.source === null) return loaded;
    const source =
      typeof loaded.source === "string"
        ? loaded.source
        : Buffer.from(toBytes(loaded.source)).toString("utf8");
    return { ...loaded, source: here.reduce((text, patch) => applyPatch(text, patch), source) };
  },
});

function toBytes(source: ArrayBuffer | NodeJS.TypedArray | SharedArrayBuffer): Uint8Array {
  return ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
}
