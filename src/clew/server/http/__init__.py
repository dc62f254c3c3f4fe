"""Operations over HTTP: routing, arguments, answers, limits, and the processes that serve them."""
