import { CopyButton } from '@carbon/react';
import { useMemo } from 'react';
import { InertText, visibleText } from './inert-text.tsx';

/** Characters to show; more would block the page. */
const MAX_LENGTH = 200_000;

/** A value as formatted JSON, with a button that copies it. */
export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? '', [value]);
  return (
    <div className="json">
      <div className="json-copy">
        <CopyButton iconDescription="Copy" align="left" onClick={() => void copyText(text)} />
      </div>
      <TextView text={text} label={label} />
    </div>
  );
}

interface TextViewProps {
  readonly text: string;
  readonly label: string;
  readonly maxLength?: number;
}

/** A long text in a frame that scrolls. */
export function TextView({ text, label, maxLength = MAX_LENGTH }: TextViewProps) {
  return (
    <section
      className="json-view"
      aria-label={visibleText(label)}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region has to be reachable by keyboard
      tabIndex={0}
    >
      <pre>
        <InertText text={text} maxLength={maxLength} />
      </pre>
    </section>
  );
}

/** Copies text. Browsers offer the clipboard only on secure origins; elsewhere a selection is copied. */
export async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  // Inside an open dialog, which would take the focus back.
  (document.querySelector('.cds--modal.is-visible .cds--modal-content') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
