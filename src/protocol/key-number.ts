/**
 * Which home key a name belongs to, of a scope whose home key was rotated.
 *
 * Home keys are numbered 0, 1, 2 ... The name of a stream or a conversation that begins under home key 3 ends with `.h3`. Names under home key 0
 * have no ending, so a scope that was never rotated has names as they always were. The ending is no secret: a wrong one only leads to a key that opens nothing.
 */
const ENDING = /\.h(?<number>[1-9]\d{0,5})$/;

export function keyNumberOf(name: string): number {
  return Number(ENDING.exec(name)?.groups?.["number"] ?? 0);
}

/** The name, as it is under this home key. */
export function numberedName(name: string, keyNumber: number): string {
  return keyNumber === 0 ? name : `${name}.h${keyNumber}`;
}
