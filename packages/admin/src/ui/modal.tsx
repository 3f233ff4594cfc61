import { Modal as CarbonModal } from '@carbon/react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { InertText, visibleText } from './inert-text.tsx';
import { ErrorNotice } from './notices.tsx';
import { useToasts } from './toasts.tsx';

interface FormModalProps<Body> {
  readonly heading: string;
  /** Label of the primary button, such as "Create". */
  readonly submit: string;
  /** Label of the secondary button (default "Cancel"). */
  readonly dismiss?: string;
  readonly danger?: boolean;
  readonly size?: 'sm' | 'md' | 'lg';
  /** What the form has made; the primary button is disabled while it is undefined. */
  readonly body: Body | undefined;
  /**
   * The dialog stays until it resolves, however long that takes, and closes then; an error is shown in the dialog, which keeps
   * what was typed, or as a toast if the user has closed it.
   */
  readonly onSubmit: (body: Body) => Promise<void>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** Dialog with a form. Render it while it is open. */
export function FormModal<Body>(props: FormModalProps<Body>) {
  const { heading, submit, dismiss = 'Cancel', danger, size, body, onSubmit, onClose, children } = props;
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const toasts = useToasts();
  const isClosed = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  useDialog(onClose);
  useEffect(() => {
    if (form.current) focusFirst(form.current);
  }, []);
  useEffect(() => {
    isClosed.current = false;
    return () => {
      isClosed.current = true;
    };
  }, []);
  const run = async (): Promise<void> => {
    if (body === undefined || isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit(body);
      // Another dialog may be open by now.
      if (!isClosed.current) onClose();
    } catch (reason) {
      if (isClosed.current) return toasts.fail(`${submit} failed`, reason);
      setError(reason);
      setBusy(false);
    }
  };
  return (
    <CarbonModal
      open
      aria-label={visibleText(heading)}
      modalHeading={<InertText text={heading} maxLength={200} />}
      primaryButtonText={isBusy ? `${submit} …` : submit}
      secondaryButtonText={dismiss}
      primaryButtonDisabled={body === undefined || isBusy}
      {...(danger !== undefined && { danger })}
      {...(size && { size })}
      preventCloseOnClickOutside
      onRequestClose={onClose}
      onRequestSubmit={() => void run()}
    >
      <form
        ref={form}
        className="modal-form"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {children}
        {error !== undefined && <ErrorNotice title={`${submit} failed`} error={error} />}
      </form>
    </CarbonModal>
  );
}

/** Focuses the field that is marked as the first one, else the first field, else the button that closes the dialog. */
function focusFirst(form: HTMLFormElement): void {
  if (form.querySelector('[data-modal-primary-focus]')) return;
  const field = form.querySelector(':is(input, textarea, select):enabled:not([tabindex="-1"]), [role="button"]');
  const target =
    field ?? form.closest('.cds--modal-container')?.querySelector('.cds--modal-footer .cds--btn--secondary');
  if (target instanceof HTMLElement) target.focus();
}

interface DetailsModalProps {
  readonly heading: string;
  readonly label?: string;
  readonly size?: 'sm' | 'md' | 'lg';
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** Dialog that only shows something. Render it while it is open. */
export function DetailsModal({ heading, label, size = 'lg', onClose, children }: DetailsModalProps) {
  useDialog(onClose);
  return (
    <CarbonModal
      open
      passiveModal
      aria-label={visibleText(heading)}
      modalHeading={
        // The first focus: on the close button, it would show the tooltip of that.
        <span tabIndex={-1} data-modal-primary-focus>
          <InertText text={heading} maxLength={200} />
        </span>
      }
      // As a text, it would be the name of the dialog.
      {...(label !== undefined && { modalLabel: [label] })}
      size={size}
      onRequestClose={onClose}
    >
      {children}
    </CarbonModal>
  );
}

/**
 * Behavior of all dialogs: the focus returns to the element that had it before, and Escape closes the dialog also from a closed
 * combo box and from the close button, which do not pass on the key, and while nothing in the dialog has the focus.
 */
export function useDialog(onClose: () => void): void {
  const before = useRef(document.activeElement);
  useEffect(
    () => () => {
      if (before.current instanceof HTMLElement) before.current.focus();
    },
    [],
  );
  useEffect(() => {
    const onKey = ({ key, target }: KeyboardEvent): void => {
      if (key !== 'Escape' || !(target instanceof Element)) return;
      const isHandled = target.matches('[role="combobox"][aria-expanded="false"], .cds--modal-close');
      if (isHandled || !target.closest('.cds--modal')) onClose();
    };
    document.addEventListener('keydown', onKey, { capture: true });
    return () => document.removeEventListener('keydown', onKey, { capture: true });
  }, [onClose]);
}
