/**
 * The log of a server: lines on standard error.
 *
 * What becomes of the log must not become of the server. Standard error may be a file on the very disk that is full: then
 * the lines wait, up to a bound, and are written when there is room. A pipe that is not read any more takes none.
 */
import { type LevelWithSilent, type Logger, pino } from "pino";

/** Beyond it the newest lines are lost. */
const WAITING_BYTES_MAX = 1024 * 1024;

export function serverLog(level: LevelWithSilent): Logger {
  const destination = pino.destination({ dest: 2, sync: true, maxLength: WAITING_BYTES_MAX });
  // The next line tries again.
  destination.on("error", () => undefined);
  return pino({ level }, destination);
}
