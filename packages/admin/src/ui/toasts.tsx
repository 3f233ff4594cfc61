import { ActionableNotification, ToastNotification } from '@carbon/react';
import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from 'react';
import { InertText, visibleText } from './inert-text.tsx';
import { messageOf } from './notices.tsx';

/** Result of an action, shown for some seconds. */
export interface Toast {
  readonly kind: 'success' | 'info' | 'warning' | 'error';
  readonly title: string;
  readonly text?: string;
  /** Label and effect of a button, such as "Undo". */
  readonly action?: { readonly label: string; readonly run: () => void };
}

/** Shows toasts. */
export interface Toasts {
  show(toast: Toast): void;
  /** Shows an error; `title` is what failed. */
  fail(title: string, error: unknown): void;
}

/** Time to undo an action; errors stay until they are closed. */
const SHOWN_MS = 10_000;

const ToastContext = createContext<Toasts | undefined>(undefined);

/** Returns the {@link Toasts}. */
export function useToasts(): Toasts {
  const toasts = useContext(ToastContext);
  if (!toasts) throw new Error('useToasts: no ToastProvider');
  return toasts;
}

/** Shows toasts above its children. */
export function ToastProvider({ children }: { readonly children: ReactNode }) {
  const [shown, setShown] = useState<readonly (Toast & { readonly id: number })[]>([]);
  const lastId = useRef(0);
  const close = useCallback((id: number) => setShown((before) => before.filter((toast) => toast.id !== id)), []);
  const toasts = useMemo<Toasts>(() => {
    const show = (toast: Toast): void => {
      const id = ++lastId.current;
      setShown((before) => [...before, { ...toast, id }]);
      if (toast.kind !== 'error') setTimeout(() => close(id), SHOWN_MS);
    };
    return { show, fail: (title, error) => show({ kind: 'error', title, text: messageOf(error) }) };
  }, [close]);
  return (
    <ToastContext value={toasts}>
      {children}
      <div className="toasts">
        {shown.map((toast) => (
          <ShownToast key={toast.id} toast={toast} onClose={() => close(toast.id)} />
        ))}
      </div>
    </ToastContext>
  );
}

function ShownToast({ toast, onClose }: { readonly toast: Toast; readonly onClose: () => void }) {
  const { kind, text, action } = toast;
  const title = visibleText(toast.title);
  const content = text === undefined ? undefined : <InertText text={text} maxLength={500} />;
  if (!action) {
    return (
      <ToastNotification kind={kind} lowContrast title={title} onClose={onClose}>
        {content}
      </ToastNotification>
    );
  }
  return (
    <ActionableNotification
      kind={kind}
      lowContrast
      inline={false}
      hasFocus={false}
      title={title}
      actionButtonLabel={action.label}
      onActionButtonClick={() => {
        onClose();
        action.run();
      }}
      onClose={onClose}
    >
      {content}
    </ActionableNotification>
  );
}
