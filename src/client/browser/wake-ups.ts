/**
 * When a browser says that it may work now, nothing waits for its timer: the network is back, the user
 * looks at the page again, or the page was taken out of the back/forward cache.
 *
 * `offline` needs nothing: what is broken is noticed as broken, and not everything that is called
 * offline is.
 */
import type { Page } from "./platform.ts";

/** Returns how to stop it. */
export function onWakeUp(page: Page, wake: () => void): () => void {
  const looked = (): void => {
    if (page.document.visibilityState === "visible") wake();
  };
  page.window.addEventListener("online", wake);
  page.window.addEventListener("pageshow", wake);
  page.document.addEventListener("visibilitychange", looked);
  return () => {
    page.window.removeEventListener("online", wake);
    page.window.removeEventListener("pageshow", wake);
    page.document.removeEventListener("visibilitychange", looked);
  };
}
