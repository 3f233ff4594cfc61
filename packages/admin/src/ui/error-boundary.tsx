import { Component, type ReactNode } from 'react';
import { ErrorNotice } from './notices.tsx';

interface ErrorBoundaryProps {
  /** What failed: "The page could not be shown". */
  readonly title: string;
  readonly children: ReactNode;
}

/**
 * Shows an error of its children in their place; everything else keeps working. After an update of the service, files of the
 * previous console are gone: loading the page again fixes that.
 */
export class ErrorBoundary extends Component<ErrorBoundaryProps, { readonly error: unknown }> {
  override state = { error: undefined as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <ErrorNotice title={this.props.title} error={error} onRetry={() => location.reload()} />;
  }
}
