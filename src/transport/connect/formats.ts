/**
 * In which of Connect's formats a call is written.
 *
 * Binary is what streams are made for. JSON is for people with curl: it is translated to binary and back at the
 * edge, message by message, so that everything behind knows one format only.
 */

export type Format = "proto" | "json";
export type CallKind = "stream" | "unary";

export function contentType(format: Format, kind: CallKind): string {
  return kind === "stream" ? `application/connect+${format}` : `application/${format}`;
}

/** Undefined when it is none that this kind of call may have. */

export function formatOf(type: string | undefined, kind: CallKind): Format | undefined {
  const essence = type?.split(";", 1)[0]?.trim().toLowerCase();
  if (essence === contentType("proto", kind)) return "proto";
  return essence === contentType("json", kind) ? "json" : undefined;
}
