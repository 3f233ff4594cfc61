import type { ReactNode } from 'react';

interface PageFrameProps {
  readonly title: string;
  readonly description: ReactNode;
  /** Buttons beside the title. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** Title, description, actions and content of a page: each page renders one. */
export function PageFrame({ title, description, actions, children }: PageFrameProps) {
  return (
    <>
      <title>{`${title} · Sluice`}</title>
      <header className="page-header">
        <div>
          <h1 className="title">{title}</h1>
          <p className="description">{description}</p>
        </div>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      <div className="page">{children}</div>
    </>
  );
}
