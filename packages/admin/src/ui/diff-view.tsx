import { json } from '@codemirror/lang-json';
import { unifiedMergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import { EditorView, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { editorTheme } from './json-editor.tsx';

interface DiffSide {
  readonly label: string;
  readonly text: string;
}

/** Differences between two texts, line by line; equal parts are collapsed. In a shadow root like the JSON editor. */
export function DiffView({ before, after }: { readonly before: DiffSide; readonly after: DiffSide }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: after.text,
        extensions: [
          lineNumbers(),
          json(),
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({
            'aria-label': `${after.label} compared with ${before.label}`,
            tabindex: '0',
          }),
          unifiedMergeView({ original: before.text, mergeControls: false, collapseUnchanged: {} }),
          editorTheme,
        ],
      }),
    });
    return () => view.destroy();
  }, [before.text, after.text, before.label, after.label]);
  if (before.text === after.text) return <p>There is no difference.</p>;
  return (
    <>
      <p>
        Red lines are only in {before.label.toLowerCase()}, green ones only in {after.label.toLowerCase()}.
      </p>
      <div ref={host} className="json-editor" />
    </>
  );
}
