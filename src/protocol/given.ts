/**
 * Fields that may be absent: to types and to encoders an absent field and one that is undefined are two things.
 */
type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Those of the fields that are not undefined. */
export function given<Fields extends object>(fields: Fields): Given<Fields>;
export function given(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
