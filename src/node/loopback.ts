/** Which addresses only this machine can reach: a server there needs no decision about who gets in. */
import { isIP } from "node:net";

/** Only this machine can reach it. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith("127.");
  return bare === "localhost" || bare === "::1" || bare.startsWith("::ffff:127.");
}

/** A wildcard: bound to it, a server is reached under every address of the machine. */
export function isEveryAddress(host: string): boolean {
  return host === "0.0.0.0" || host === "::" || host === "";
}
