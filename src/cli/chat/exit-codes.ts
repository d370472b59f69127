/**
 * How `holdfast chat` ends, for scripts. 1 and 2 are those of every command.
 */
export const EXIT_DONE = 0;
/** The turn failed: the model, or the agent, could not. */
export const EXIT_TURN_FAILED = 1;
/** The turn ended, and on its way a tool was not allowed to run. */
export const EXIT_DENIED = 3;
/** There is no server, or it does not let us in. */
export const EXIT_NO_SERVER = 4;
/** Stopped by Ctrl-C. */
export const EXIT_INTERRUPTED = 130;
