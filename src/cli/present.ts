/**
 * Settings in layers: one laid over another takes only what was said.
 */
type Said<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Without the fields that are undefined. */
export function present<Fields extends object>(fields: Fields): Said<Fields>;
export function present(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
