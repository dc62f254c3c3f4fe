"""Operations on knowledge: facts, decisions, progress, and recalling them."""
