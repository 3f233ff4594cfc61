import { Modal as CarbonModal } from '@carbon/react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { ErrorNotice } from './notices.tsx';

interface FormModalProps {
  readonly heading: string;
  /** Label of the primary button, such as "Create". */
  readonly submit: string;
  readonly danger?: boolean;
  readonly size?: 'sm' | 'md' | 'lg';
  /** The primary button is disabled while it is false. */
  readonly isValid: boolean;
  /** Closes the dialog when it succeeds; an error is shown in the dialog, which keeps what was typed. */
  readonly onSubmit: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** Dialog with a form. Render it while it is open. */
export function FormModal({ heading, submit, danger, size, isValid, onSubmit, onClose, children }: FormModalProps) {
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  useReturnedFocus();
  const run = async (): Promise<void> => {
    if (!isValid || isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit();
      onClose();
    } catch (reason) {
      setError(reason);
      setBusy(false);
    }
  };
  return (
    <CarbonModal
      open
      modalHeading={heading}
      primaryButtonText={isBusy ? `${submit} …` : submit}
      secondaryButtonText="Cancel"
      primaryButtonDisabled={!isValid || isBusy}
      {...(danger !== undefined && { danger })}
      {...(size && { size })}
      preventCloseOnClickOutside
      onRequestClose={onClose}
      onRequestSubmit={() => void run()}
    >
      <form
        className="modal-form"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {children}
        {error !== undefined && <ErrorNotice title={`${heading}: failed`} error={error} />}
      </form>
    </CarbonModal>
  );
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
  useReturnedFocus();
  return (
    <CarbonModal
      open
      passiveModal
      modalHeading={heading}
      {...(label !== undefined && { modalLabel: label })}
      size={size}
      onRequestClose={onClose}
    >
      {children}
    </CarbonModal>
  );
}

/** Returns the focus to the element that had it when the component appeared. */
function useReturnedFocus(): void {
  const before = useRef(document.activeElement);
  useEffect(
    () => () => {
      if (before.current instanceof HTMLElement) before.current.focus();
    },
    [],
  );
}
