import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json, jsonParseLinter } from '@codemirror/lang-json';
import { linter, lintGutter } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';

interface JsonEditorProps {
  readonly id: string;
  readonly label: string;
  /** The text when the editor appears; later values are ignored, since the editor has its own state. */
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly helperText?: string;
  /** Error of the value, besides invalid JSON, which the editor marks itself. */
  readonly error?: string | undefined;
}

/**
 * Editor for JSON text that marks errors. It is in a shadow root, where the editor uses constructed style sheets; in the
 * document it would add inline styles, which the content security policy rejects.
 */
export function JsonEditor({ id, label, value, onChange, helperText, error }: JsonEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const initial = useRef(value);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open', delegatesFocus: true });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: initial.current,
        extensions: [
          lineNumbers(),
          history(),
          keymap.of([...defaultKeymap, ...historyKeymap, { ...indentWithTab, key: 'Ctrl-Alt-i' }]),
          json(),
          linter(lintJson, { delay: 200 }),
          lintGutter(),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current(update.state.doc.toString());
          }),
          editorTheme,
        ],
      }),
    });
    return () => view.destroy();
  }, [label]);
  return (
    <div className="cds--form-item">
      <span className="cds--label">{label}</span>
      <div id={id} ref={host} className="json-editor" />
      {error === undefined ? (
        helperText && <div className="cds--form__helper-text">{helperText}</div>
      ) : (
        <div className="cds--form-requirement json-editor-error" role="alert">
          {error}
        </div>
      )}
    </div>
  );
}

const parseErrors = jsonParseLinter();

/** Empty text is no error: a value may be optional. */
function lintJson(view: EditorView): ReturnType<typeof parseErrors> {
  return view.state.doc.toString().trim() === '' ? [] : parseErrors(view);
}

/** Carbon's tokens are custom properties, which cross the shadow boundary. */
export const editorTheme = EditorView.theme({
  '&': {
    backgroundColor: 'var(--cds-field, var(--cds-field-01))',
    color: 'var(--cds-text-primary)',
    fontSize: '0.8125rem',
  },
  '&.cm-focused': { outline: '2px solid var(--cds-focus)' },
  '.cm-scroller': { maxHeight: '20rem', minHeight: '6rem', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--cds-text-primary)' },
  '.cm-cursor': { borderLeftColor: 'var(--cds-text-primary)' },
  '.cm-gutters': { backgroundColor: 'var(--cds-layer-02)', color: 'var(--cds-text-secondary)', border: 'none' },
  '.cm-tooltip': { backgroundColor: 'var(--cds-layer-02)', color: 'var(--cds-text-primary)' },
});

/** Returns the value of JSON text; undefined if it is not valid. */
export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
