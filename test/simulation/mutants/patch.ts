/**
 * A patch of one production file's text: what a planted bug is made of.
 */
export interface Patch {
  readonly file: string;
  /** Must be in the file exactly once. */
  readonly from: string;
  readonly to: string;
}

export function applyPatch(text: string, { file, from, to }: Patch): string {
  const parts = text.split(from);
  if (parts.length !== 2)
    throw new Error(`${file}: the text to patch is there ${parts.length - 1} times: ${from}`);
  return parts.join(to);
}

export function readPatches(json: string): readonly Patch[] {
  const value: unknown = JSON.parse(json);
  if (!Array.isArray(value) || value.length === 0 || !value.every(isPatch)) {
    throw new Error("HOLDFAST_PATCHES holds no patches");
  }
  return value;
}

function isPatch(value: unknown): value is Patch {
  return typeof value === "object" && value !== null && "file" in value && "from" in value && "to" in value;
}
