/**
 * Plants one bug: patches the text of production files as they are loaded.
 *
 * `node --import ./plant.ts` with the bug's name in `HOLDFAST_MUTANT`. Production code has no hook
 * for this and knows nothing of it; what runs is the production path with one rule broken. A patch
 * whose text is not found exactly once fails loudly: the table must follow the code.
 */
import { registerHooks } from "node:module";
import { MUTANTS } from "./table.ts";

const name = process.env["HOLDFAST_MUTANT"];
const mutant = MUTANTS.find((one) => one.name === name);
if (mutant === undefined) throw new Error(`no planted bug is called ${name}`);

const root = new URL("../../../", import.meta.url);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const patches = mutant.patches.filter(({ file }) => new URL(file, root).href === url);
    if (patches.length === 0 || loaded.source === undefined || loaded.source === null) return loaded;
    const source =
      typeof loaded.source === "string"
        ? loaded.source
        : Buffer.from(toBytes(loaded.source)).toString("utf8");
    return { ...loaded, source: patches.reduce((text, patch) => applyPatch(text, patch), source) };
  },
});

function toBytes(source: ArrayBuffer | NodeJS.TypedArray | SharedArrayBuffer): Uint8Array {
  return ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
}

function applyPatch(text: string, { file, from, to }: { file: string; from: string; to: string }): string {
  const parts = text.split(from);
  if (parts.length !== 2)
    throw new Error(`${file}: the text to patch is there ${parts.length - 1} times: ${from}`);
  return parts.join(to);
}
