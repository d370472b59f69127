/**
 * Base64 for small values in headers and JSON, in Node and browsers alike.
 *
 * Written without padding, in the alphabet that the place asks for; read from either alphabet, with or without padding.
 */
export function encodeBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, "");
}

export function encodeBase64Url(bytes: Uint8Array): string {
  return encodeBase64(bytes).replaceAll("+", "-").replaceAll("/", "_");
}

/** Undefined when it is not base64; bits that are left over must be zero, so that a value has one spelling. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const letters = text
    .replace(/={1,2}$/, "")
    .replaceAll("-", "+")
    .replaceAll("_", "/");
  try {
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    return encodeBase64(bytes) === letters ? bytes : undefined;
  } catch {
    return undefined;
  }
}
