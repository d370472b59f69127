/**
 * Names of responses and of their items. An item's name has the name of its response in it, so no index of items is needed.
 */
import { hash } from "node:crypto";

/** The same seed (the stream and where the answer begins in it) gives the same id. */
export function responseIdOf(seed: string): string {
  return RESPONSE + hash("sha256", seed).slice(0, 32);
}

const RESPONSE = "resp_";
const ITEM = /^(?:rs|msg|fc)_([0-9a-f]{32})_\d+$/;

export function itemId(kind: "rs" | "msg" | "fc", responseId: string, index: number): string {
  return `${kind}_${responseId.slice(RESPONSE.length)}_${index}`;
}

/** The response that has the item; undefined for a name that is not ours. */
export function responseOfItem(id: string): string | undefined {
  const [, name] = ITEM.exec(id) ?? [];
  return name === undefined ? undefined : RESPONSE + name;
}
