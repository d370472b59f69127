/**
 * The conversations that this browser keeps, and the model of the next message.
 */
import type { ListedConversation } from "./conversation-list.ts";
import type { ListedModel } from "./model-list.ts";

interface SidebarProps {
  readonly listed: readonly ListedConversation[];
  readonly current: string;
  readonly open: (id: string) => void;
  /** Where it stands before the conversation. */
  readonly close: () => void;
  readonly begin: () => void;
  readonly models: readonly ListedModel[];
  readonly model: string;
  /** The one that answered last; empty when none has. */
  readonly lastModel: string;
  readonly choose: (model: string) => void;
  readonly signOut: () => void;
}

export function Sidebar(props: SidebarProps) {
  const { listed, current, open, close, begin, models, model, lastModel, choose, signOut } = props;
  return (
    <nav
      className="sidebar"
      id="conversations"
      aria-label="Conversations"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        close();
      }}
    >
      <button type="button" className="quiet close" onClick={close}>
        Close
      </button>
      <button type="button" className="new" onClick={begin}>
        New <kbd>Alt N</kbd>
      </button>
      <ul>
        {listed.map(({ id, title, isRunning }) => (
          <li key={id}>
            <button type="button" aria-current={id === current} onClick={() => open(id)}>
              <span className="title">{title === "" ? "Untitled" : title}</span>
              {isRunning && <span className="running" title="An answer is under way" aria-label="running" />}
            </button>
          </li>
        ))}
      </ul>
      <div className="foot">
        <label>
          Model
          <select value={model} onChange={({ target }) => choose(target.value)}>
            <option value="">{lastModel === "" ? "the default" : `as before: ${lastModel}`}</option>
            {models.map(({ id }) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
        <button type="button" className="quiet" onClick={signOut}>
          Sign out
        </button>
      </div>
    </nav>
  );
}
